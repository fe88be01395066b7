"""Why a model gives an answer: records of the reasons, as text and as a page."""
