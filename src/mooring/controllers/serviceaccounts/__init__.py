"""What each namespace has for its pods: the service account `default`, and the API server's authority."""
