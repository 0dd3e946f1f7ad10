"""The routes of the app, one module for each subject."""
