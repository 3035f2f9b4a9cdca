"""The inside of the OpenSearch store.

address.py     the store's URL
cluster.py     requests to the cluster: deadlines, retries, errors, refreshes
bulks.py       writes that share `_bulk` requests
indices.py     the indices: names, settings, mappings
doctor.py      looks at a cluster without changing it, for `agui-gateway doctor`
cluster_findings.py  what a cluster's answers about itself mean for a store
"""
