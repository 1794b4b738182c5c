"""What a stack costs."""
