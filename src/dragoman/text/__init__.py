"""Text before and after the model: detection and segmentation. Knows no model and no wire format."""
