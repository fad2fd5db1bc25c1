"""The web pages of the server: hand-written HTML, CSS and ES modules under `static/`, and the router that serves them."""
