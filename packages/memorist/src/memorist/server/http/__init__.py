"""Requests and responses: the app, its middleware, authentication and the handler of an endpoint."""
