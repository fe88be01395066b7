"""Overlapping clusters chosen by a matcher, written obviously: Y^T M by loops, one place after the other."""


def label_sums(rows: list[set[int]], matched: list[dict[int, float]], n_labels: int, n_clusters: int) -> list[list]:
    """What each label's rows give to each cluster: ``matched`` holds a row's clusters and what it gives to them."""
    sums = [[0.0] * n_clusters for _ in range(n_labels)]
    for labels, clusters in zip(rows, matched, strict=True):
        for label in labels:
            for cluster, value in clusters.items():
                sums[label][cluster] += value
    return sums


def assigned(sums: list[list], home: list[int], overlap: int, max_leaf: int, keeps_home: bool) -> list[set[int]]:
    """The labels of each cluster: again and again the highest sum of all that may still be taken."""
    n_labels, n_clusters = len(sums), len(sums[0])
    clusters: list[set[int]] = [set() for _ in range(n_clusters)]

    def places(label: int) -> int:
        return sum(label in cluster for cluster in clusters)

    def open_to(label: int, most: int) -> list[int]:
        if places(label) == most:
            return []
        return [c for c in range(n_clusters) if len(clusters[c]) < max_leaf and label not in clusters[c]]

    def fill(most: int) -> None:
        while True:
            free = [(-sums[x][c], x, c) for x in range(n_labels) for c in open_to(x, most) if sums[x][c] > 0]
            if not free:
                return
            _, label, cluster = min(free)
            clusters[cluster].add(label)

    if not keeps_home:
        for cluster in range(n_clusters):
            own = [label for label in range(n_labels) if home[label] == cluster]
            if own:
                clusters[cluster].add(max(own, key=lambda label: (sums[label][home[label]], -label)))
        fill(1)
    for label in range(n_labels):
        if not places(label):
            free = open_to(label, 1)
            emptiest = min(free, key=lambda c: (len(clusters[c]), c))
            clusters[home[label] if home[label] in free else emptiest].add(label)
    fill(overlap)
    return clusters
