"""`/v1`: this program as a server for others, in OpenAI's form."""
