"""Moving in: what other memories have written, read into our kinds. What has no place here is listed, not dropped."""
