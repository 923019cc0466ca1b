"""The OpenAPI document of the server: what routes take and answer, as data."""
