"""What the server knows of the fields of objects: the API's own types as facts, and checks made from them.

`api.json` is generated (`scripts/api_facts.py`); `facts` reads it. Nothing here knows requests or the store.
"""
