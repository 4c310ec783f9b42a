"""The handlers of requests, called when the route is known and the user is authorized.

    reads, list_options     get, list, and what a list selects
    watch, watch_broadcast  watches, and how many of them share one piece of news
    writes, write_request   create, update, patch, delete; and what such a request carries
    subresources, eviction  binding, eviction, scale, finalize, log
    access_reviews          "may I ...?", answered and never stored
    discovery, openapi      which kinds there are, and their schemas
    rendering               stored objects in the form that a client asked for
    custom_object_cleanup   the objects of a CustomResourceDefinition that is being deleted

Must not know of sockets, HTTP frameworks or processes.
"""
