"""The web app: the page that was built from `web/`, and the sign-in of a browser."""
