"""Load tests, reports, the journey, the tuner and quality tests, over HTTP; installed with the extra `bench`."""
