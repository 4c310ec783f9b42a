"""Static pods: a folder of manifests (`manifests`), the pods made from it (`pods`), what the API shows
(`mirrors`)."""
