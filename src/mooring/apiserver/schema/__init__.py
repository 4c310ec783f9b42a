"""The fields of objects: facts about the API's own types, and checks made from them.

`api.json` is generated (`scripts/api_facts.py`); `facts` reads it. Nothing here knows requests or the store.
"""
