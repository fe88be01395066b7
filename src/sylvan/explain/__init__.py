"""Why a model gives a label to a row: records of the paths and features, as data, as text and as a page."""
