"""scikit-learn's metadata routing: which arguments of an estimator its tools hand on, such as weights of rows.

Nothing here loads scikit-learn but the method that only its tools call.
"""

from __future__ import annotations

import copy
import inspect
import sys
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sylvan.errors import ParameterError, UnsupportedError
from sylvan.params import Parameterized

__all__ = ["MetadataRouting", "Requests"]

_Self = TypeVar("_Self", bound="MetadataRouting")
_METHODS = ("fit", "partial_fit", "predict", "predict_proba", "score")
_DATA = ("X", "Y", "y", "texts", "label_lists")  # what is learned from and asked about, which is no metadata


@dataclass
class Requests:
    """What was asked for by ``set_fit_request`` and its like; scikit-learn's ``clone`` takes it along.

    Attributes
    ----------
    of_methods : dict of str to (dict of str to (bool, str or None))
        For each method and argument, whether it is handed on, or under which name the tool is given it.
    """

    of_methods: dict[str, dict[str, bool | str | None]] = field(default_factory=dict)

    def __sklearn_clone__(self) -> Requests:
        return copy.deepcopy(self)


class MetadataRouting(Parameterized):
    """Base of estimators that tell scikit-learn's tools which arguments they want handed on."""

    def get_metadata_routing(self) -> Any:
        """What scikit-learn's tools ask before they hand arguments on; only they load scikit-learn.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRequest
        """
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=type(self).__name__)
        asked = self._asked_for().of_methods
        for method in _METHODS:
            for name in self._metadata_of(method):
                getattr(request, method).add_request(param=name, alias=asked.get(method, {}).get(name))
        return request

    def set_fit_request(self: _Self, **arguments: bool | str | None) -> _Self:
        """Say which arguments of ``fit`` scikit-learn's tools hand on, where its metadata routing is enabled.

        Parameters
        ----------
        **arguments : bool, str or None
            For an argument, ``sample_weight`` say: True to hand it on where it is given, False to leave it out, a name
            under which it is given, or None for an error where it is given, the default.

        Returns
        -------
        the estimator

        Raises
        ------
        ParameterError
            For an argument that the method hasn't got.
        UnsupportedError
            As long as ``sklearn.set_config(enable_metadata_routing=True)`` hasn't been called.

        Examples
        --------
        >>> import sklearn
        >>> from sylvan import XRLinear
        >>> with sklearn.config_context(enable_metadata_routing=True):
        ...     model = XRLinear().set_fit_request(sample_weight=True)
        ...     print(model.get_metadata_routing().fit.requests["sample_weight"])
        True
        """
        return self._request("fit", arguments)

    def set_predict_request(self: _Self, **arguments: bool | str | None) -> _Self:
        """As :meth:`set_fit_request`, of the arguments of ``predict``, such as ``threshold``."""
        return self._request("predict", arguments)

    def set_predict_proba_request(self: _Self, **arguments: bool | str | None) -> _Self:
        """As :meth:`set_fit_request`, of the arguments of ``predict_proba``, such as ``k``."""
        return self._request("predict_proba", arguments)

    def set_score_request(self: _Self, **arguments: bool | str | None) -> _Self:
        """As :meth:`set_fit_request`, of the arguments of ``score``: ``sample_weight``."""
        return self._request("score", arguments)

    def _request(self: _Self, method: str, arguments: dict[str, bool | str | None]) -> _Self:
        sklearn = sys.modules.get("sklearn")
        if sklearn is None or not sklearn.get_config().get("enable_metadata_routing"):
            raise UnsupportedError(
                f"set_{method}_request has no effect without scikit-learn's metadata routing: call "
                "sklearn.set_config(enable_metadata_routing=True) first."
            )
        known = self._metadata_of(method)
        for name, wanted in arguments.items():
            if name not in known:
                raise ParameterError(
                    f"{type(self).__name__}.{method} has no argument {name!r} to be handed on. It has: "
                    f"{', '.join(known) or 'none'}."
                )
            if wanted is not None and not isinstance(wanted, bool | str):
                raise ParameterError(
                    f"The request of {name!r} must be True, False, None or a name. Got {wanted!r} instead."
                )
        made = copy.deepcopy(self._asked_for())
        made.of_methods.setdefault(method, {}).update(arguments)
        self._metadata_request = made
        return self

    def _asked_for(self) -> Requests:
        """What was requested; the attribute is there only where something was, as scikit-learn's ``clone`` wants it."""
        result: Requests = self.__dict__.get("_metadata_request", Requests())
        return result

    def _metadata_of(self, method: str) -> list[str]:
        """The arguments of a method that are neither data nor any others by name."""
        if not hasattr(type(self), method) or isinstance(getattr(type(self), method), property):
            return []
        given = inspect.signature(getattr(type(self), method)).parameters.values()
        named = (one.name for one in given if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD))
        return [name for name in named if name not in ("self", *_DATA)]
