"""``sylvan serve`` on a Ray cluster: replicas of the same application on its nodes, behind one address.

Run it with ``serve run ray_serve:models books=/shared/runs/books`` in this folder, and ask at port 8000 what you would
ask ``sylvan serve``. Every node reads the models from the same place. Needs ``pip install "sylvan[serve,ray]"
"ray[serve]"``.
"""

from ray import serve


def models(folders: dict[str, str]) -> serve.Application:
    """A deployment of models in folders, by the names that they have in addresses."""

    def application():  # called in each replica, which needs Sylvan and the folders, but not this file
        import sylvan.serve

        return sylvan.serve.app(folders, wait=True)

    replica = serve.ingress(application)()
    # Requests that wait together are ranked together, so that a replica is given many of them at once.
    return serve.deployment(replica, name="sylvan", num_replicas=2, max_ongoing_requests=100).bind()
