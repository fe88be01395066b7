"""Encoders over a network of Hugging Face's: sentence encoders, Transformers, and the one that a source names."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.neural.text import hugging_face
from sylvan.neural.text.bag_text_encoder import MODEL_TYPE, BagTextEncoder
from sylvan.neural.text.encoder_files import Recipe, pooler_as_dense, read_recipe
from sylvan.neural.text.text_encoder import TextEncoder, TokenRows, as_tensor, checksum_of_tensors
from sylvan.parallel import progress
from sylvan.params.fields import Instance, Range, parameterized
from sylvan.text.counting import as_documents
from sylvan.text.encoder_folders import (
    check_files,
    find_folder,
    is_static,
    model_type,
    reason_of,
    written_beside,
)

_CHUNK = 1000
_UNLIMITED = 1_000_000  # tokenizers without a limit say some 1e30
Pooling = Literal["mean", "cls", "pooler", "max", "last"]
Source = Annotated[
    str | os.PathLike[str], Instance((str, os.PathLike), "the path of a folder or a name on the Hugging Face hub")
]


class NetworkEncoder(TextEncoder):
    """A tokenizer, a network, a way of pooling and layers behind it; a subclass says which."""

    source: str | os.PathLike[str]
    lora_rank: int | None
    gradient_checkpointing: bool
    frozen: bool
    seed: int
    steps: Any  # of sentence_transformers' modules: a Transformer, a Pooling, and Dense layers
    recipe: Recipe  # what is done besides the network

    @abstractmethod
    def _read_recipe(self, folder: str) -> Recipe:
        """What is to be done besides the network, of the checked parameters and the folder's files."""

    # ------------------------------------------------------------------------------------ loading

    def _load(self) -> None:
        if self.frozen and self.lora_rank is not None:
            raise ParameterError(
                f"The 'lora_rank' parameter of {type(self).__name__} must be None where 'frozen' is True. "
                f"Got {self.lora_rank} instead."
            )
        hugging_face.need("transformers")
        folder = find_folder(self.source)
        recipe = self._read_recipe(folder)
        check_files(recipe.folder)
        first, missing = hugging_face.load_network(recipe.folder)
        if missing and recipe.modes == ("pooler",):
            raise hugging_face.incomplete(recipe.folder, missing)
        self._read_ids(first.tokenizer, first.model, recipe.folder)
        self.max_length = recipe.max_length = self._length(recipe, first.tokenizer, first.model)
        if recipe.modes == ("pooler",):
            pooler = pooler_as_dense(first.model)
            if pooler is None:
                raise ParameterError(
                    f"The 'pooling' parameter of TransformerEncoder can't be 'pooler' for the network in "
                    f"{recipe.folder!r} ({type(first.model).__name__}), which has none like BERT's. Choose 'mean' or "
                    "'cls'."
                )
            recipe = replace(recipe, modes=("cls",), dense=[pooler])
        # The length is set here once: a tokenizer that several threads use must not be changed any more.
        hugging_face.token_ids(first.tokenizer, [""], self.max_length)
        first.max_seq_length = self.max_length
        self.recipe, self.normalizes = recipe, recipe.normalizes
        pooling = hugging_face.need_modules().Pooling(first.get_embedding_dimension(), recipe.modes)
        self.steps = nn.ModuleList([first, pooling, *recipe.dense])
        self._dim_out = self._try_out(recipe)
        self._prepare_training(recipe)

    @property
    def network(self) -> Any:
        """The network of Hugging Face's, wrapped by peft's where LoRA trains it."""
        return self.steps[0].model

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of Hugging Face's."""
        return self.steps[0].tokenizer

    def _read_ids(self, tokenizer: Any, network: Any, folder: str) -> None:
        """The id that pads, and the one that stands for a text without tokens. Every id that the tokenizer gives must
        have a row in the network's table."""
        n_rows = network.get_input_embeddings().weight.shape[0]
        n_ids = max(tokenizer.get_vocab().values(), default=-1) + 1
        if n_ids > n_rows:
            raise ModelError(
                f"The tokenizer and the network in {folder!r} don't belong together: the tokenizer has ids up to "
                f"{n_ids - 1}, the network's table has {n_rows} rows."
            )
        if n_ids < 2:
            raise ModelError(f"The tokenizer in {folder!r} is damaged: it knows no tokens.")
        candidates = [tokenizer.pad_token_id, getattr(network.config, "pad_token_id", None), tokenizer.eos_token_id]
        self._padding = next((i for i in candidates if isinstance(i, int) and i >= 0), -1)
        if self._padding < 0:
            raise ModelError(
                f"The tokenizer in {folder!r} has neither a token for padding nor one for the end of a text. Set its "
                "pad_token and save it again."
            )
        starts = [tokenizer.cls_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id]
        self._substitute = next((i for i in starts if isinstance(i, int) and i >= 0), self._padding)

    def _length(self, recipe: Recipe, tokenizer: Any, network: Any) -> int:
        """The most tokens to look at; a length that was asked for has to be one that the network can take."""
        least = int(tokenizer.num_special_tokens_to_add()) + 1
        most = hugging_face.longest_input(network)
        wanted = self.max_length
        if wanted is None:
            limits = [n for n in (recipe.max_length, most) if n is not None]
            if recipe.max_length is None and tokenizer.model_max_length < _UNLIMITED:
                limits.append(int(tokenizer.model_max_length))
            if not limits:
                raise ParameterError(
                    f"The 'max_length' parameter of {type(self).__name__} must be given: nothing in {recipe.folder!r} "
                    "says how long a text may be."
                )
            return max(least, min(limits))
        if wanted < least or (most is not None and wanted > most):
            right = "inf)" if most is None else f"{most}], where its positions end"
            raise ParameterError(
                f"The 'max_length' parameter of {type(self).__name__} must for the encoder in {recipe.folder!r} be an "
                f"int in [{least}, {right}. Got {wanted} instead."
            )
        return int(wanted)

    def _try_out(self, recipe: Recipe) -> int:
        """Encode a token: what doesn't fit together shows itself here; the number of dimensions."""
        ids = torch.tensor([[self._substitute]])
        try:
            with torch.inference_mode():
                vectors = self._encode({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        except ModelError:
            raise
        except Exception as error:  # of the network's own code
            reason = reason_of(error)
            raise ModelError(f"The network in {recipe.folder!r} doesn't encode texts: {reason}") from error
        if not bool(torch.isfinite(vectors).all()):
            raise ModelError(f"The weights in {recipe.folder!r} are damaged: vectors are not finite.")
        return int(vectors.shape[1])

    def _prepare_training(self, recipe: Recipe) -> None:
        """Which weights a training changes, and whether activations are computed again for the backward pass."""
        pooler = getattr(self.network, "pooler", None)
        in_use = {id(weight) for layer in self.steps[2:] for weight in layer.parameters()}
        for weight in pooler.parameters() if isinstance(pooler, nn.Module) else ():
            weight.requires_grad_(id(weight) in in_use)
        if self.frozen:
            self.requires_grad_(False)
            return
        if self.gradient_checkpointing and not hugging_face.recompute_activations(self.network):
            raise ParameterError(
                f"The 'gradient_checkpointing' parameter of {type(self).__name__} must be False for the network in "
                f"{recipe.folder!r} ({type(self.network).__name__}), which can't. Got True instead."
            )
        if self.lora_rank is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                self.steps[0].model = hugging_face.add_lora(self.network, self.lora_rank)

    def fold(self) -> None:
        if self._loaded and self.lora_rank is not None:
            hugging_face.fold_lora(self.network)

    @property
    def dim_out(self) -> int:
        self.load()
        return self._dim_out

    # ------------------------------------------------------------------------------------ texts to vectors

    def tokenize(self, texts: Iterable[str]) -> TokenRows:
        self.load()
        documents = as_documents(texts)
        self.n_truncated = 0
        parts = []
        with progress("Tokenising texts", len(documents), "texts") as bar:
            for start in range(0, len(documents), _CHUNK):
                some = [self.recipe.prompt + text for text in documents[start : start + _CHUNK]]
                if self.recipe.lowercase:
                    some = [text.lower() for text in some]
                ids, n_truncated = hugging_face.token_ids(self.tokenizer, some, self.max_length)
                self.n_truncated += n_truncated
                parts.append(TokenRows.from_lists([row or [self._substitute] for row in ids]))
                bar.update(len(some))
        return TokenRows.join(parts)

    def collate(self, rows: TokenRows) -> dict[str, Tensor]:
        self.load()
        if (rows.lengths == 0).any():
            raise DataError("Every row of tokens must have a token: even an empty text has one when it is tokenised.")
        ids, mask = rows.dense(self._padding)
        return {"input_ids": as_tensor(ids), "attention_mask": as_tensor(mask)}

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        self.load()
        return self._encode(batch)

    def _encode(self, batch: Mapping[str, Tensor]) -> Tensor:
        features = self.steps[0]({name: batch[name] for name in ("input_ids", "attention_mask")})
        # Whatever the precision, pooling is in float32.
        features["token_embeddings"] = features["token_embeddings"].float()
        for step in self.steps[1:]:
            features = step(features)
        vectors: Tensor = features["sentence_embedding"].float()
        return vectors

    # ------------------------------------------------------------------------------------ files

    def identity(self) -> dict[str, Any]:
        self.load()
        recipe, tokenizer = self.recipe, self.tokenizer
        return {
            "kind": "transformer",
            "network": type(self.network).__name__,
            "pooling": list(recipe.modes),
            "dense": [layer.get_config_dict() for layer in self.steps[2:]],
            "normalizes": recipe.normalizes,
            "max_length": self.max_length,
            "lowercase": recipe.lowercase,
            "prompt": recipe.prompt,
            **self._of_weights(
                lambda: {
                    "tokenizer": hugging_face.tokenizer_checksum(tokenizer),
                    "weights": checksum_of_tensors(self.state_dict().items()),
                }
            ),
        }

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        self.load()
        recipe, modules = self.recipe, [*self.steps]
        prompts, name = dict(recipe.prompts or {}), None
        if self.normalizes:
            modules.append(hugging_face.need_modules().Normalize())
        if recipe.prompt:
            name = next((name for name, prompt in prompts.items() if prompt == recipe.prompt), "default")
            prompts[name] = recipe.prompt
        with written_beside(folder) as place:
            hugging_face.save(modules, place, prompts=prompts, prompt_name=name, lowercase=recipe.lowercase)


@parameterized
class SentenceEncoder(NetworkEncoder):
    """The network, pooling, further layers and normalisation that a folder's ``modules.json`` names.

    The vectors are those of ``SentenceTransformer(folder).encode``; :func:`~sylvan.neural.embed` brings them to length
    1 where ``normalizes`` says so.

    Parameters
    ----------
    source : path or str
        A folder that sentence-transformers or :meth:`save_pretrained` wrote, or a name on the Hugging Face hub.
    max_length : int, optional
        The most tokens of a text that are looked at, special ones included; None for what the folder says.
    lora_rank, gradient_checkpointing, frozen, seed
        As for :class:`~sylvan.neural.TransformerEncoder`.
    prompt : str, optional
        What is put before every text, or the name of one of the folder's prompts; None for the folder's default.

    Examples
    --------
    >>> from sylvan.neural import SentenceEncoder
    >>> SentenceEncoder("no/such/folder").load()
    Traceback (most recent call last):
    ...
    sylvan.errors.ModelError: There is no folder 'no/such/folder'.
    """

    source: Source
    max_length: Annotated[int | None, Range(1)] = None  # type: ignore[assignment]  # an int once the folder is read
    lora_rank: Annotated[int | None, Range(1)] = None
    gradient_checkpointing: bool = False
    frozen: bool = False
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0
    prompt: Annotated[str | None, Instance((str,), "a text or the name of a prompt")] = None

    def _read_recipe(self, folder: str) -> Recipe:
        recipe = read_recipe(folder)
        if self.prompt is not None:
            recipe.prompt = (recipe.prompts or {}).get(self.prompt, self.prompt)
        return recipe


@parameterized
class TransformerEncoder(NetworkEncoder):
    """Any network that ``AutoModel`` loads, and one vector a text from the vectors of its tokens.

    Weights are read as float32, whatever they were saved as; code that comes with a model is never run.

    Parameters
    ----------
    source : path or str
        A folder with ``config.json``, the weights and the tokenizer, or a name on the Hugging Face hub. Of a name the
        files that an earlier download left are used where they are complete, without asking the hub.
    pooling : {"mean", "cls", "pooler", "max", "last"}
        The tokens' mean, the first token's vector, what the network's own pooler makes of that, the largest value of
        each dimension, or the last token's vector (for networks whose tokens see only those before them).
    max_length : int
        The most tokens of a text that are looked at, special ones included.
    lora_rank : int, optional
        Train low-rank additions to the attention's weights instead of the weights (LoRA, through peft).
    gradient_checkpointing : bool
        Compute activations again in the backward pass instead of keeping them: less memory, about a third more time.
    frozen : bool
        Whether the weights stay as they are in a training.
    seed : int
        Of what LoRA begins with.

    Attributes
    ----------
    network : transformers.PreTrainedModel
    tokenizer : transformers.PreTrainedTokenizer

    Notes
    -----
    An empty text is the tokenizer's special tokens alone, or where there are none its token for the beginning or end
    of a text. Padding changes vectors by no more than rounding: some 1e-6 of their length in float32.

    Of networks with a decoder behind the encoder (T5 and its kin) only the encoder is loaded.

    Examples
    --------
    >>> from sylvan.neural import TransformerEncoder
    >>> TransformerEncoder("no/such/folder", pooling="cls").load()
    Traceback (most recent call last):
    ...
    sylvan.errors.ModelError: There is no folder 'no/such/folder'.
    """

    source: Source
    pooling: Pooling = "mean"
    max_length: Annotated[int, Range(1)] = 128
    lora_rank: Annotated[int | None, Range(1)] = None
    gradient_checkpointing: bool = False
    frozen: bool = False
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0

    def _read_recipe(self, folder: str) -> Recipe:
        return Recipe(folder, modes=("lasttoken" if self.pooling == "last" else self.pooling,))


def open_encoder(
    source: str | os.PathLike[str] | TextEncoder,
    *,
    max_length: int | None = None,
    pooling: Pooling | None = None,
    lora_rank: int | None = None,
    gradient_checkpointing: bool = False,
    frozen: bool = False,
    seed: int = 0,
) -> TextEncoder:
    """An encoder with its weights read.

    Parameters
    ----------
    source : "bag", path, str or TextEncoder
        "bag" is a new :class:`BagTextEncoder`; a folder or a name on the Hugging Face hub is what lies there; an
        encoder is itself.
    max_length : int, optional
        The most tokens of a text that are looked at; None for what the encoder says, or its class's default.
    pooling : str, optional
        See :class:`TransformerEncoder`; None for what the folder says, or "mean".
    lora_rank, gradient_checkpointing, frozen, seed
        As for :class:`TransformerEncoder`.

    Returns
    -------
    TextEncoder

    Examples
    --------
    >>> from sylvan.neural import open_encoder
    >>> open_encoder("bag", max_length=50).dim_out
    128
    """
    of_networks: dict[str, Any] = {"lora_rank": lora_rank, "gradient_checkpointing": gradient_checkpointing}
    if isinstance(source, TextEncoder):
        refuse_beside(source, max_length=max_length, pooling=pooling, frozen=frozen, **of_networks)
        return source.load()
    if not isinstance(source, (str, os.PathLike)):
        raise ParameterError(
            "An encoder must be 'bag', the path of a folder, a name on the Hugging Face hub or a TextEncoder. "
            f"Got {source!r} instead."
        )
    settings: dict[str, Any] = {"frozen": frozen} | ({} if max_length is None else {"max_length": max_length})
    kind = encoder_kind(source)
    if kind == "bag":
        refuse_of_bags(pooling=pooling, **of_networks)
        if source == "bag":
            return BagTextEncoder(**settings, seed=seed).load()
        return BagTextEncoder.from_folder(find_folder(source), **settings)
    if pooling is None and kind == "sentence":
        return SentenceEncoder(source, **settings, **of_networks, seed=seed).load()
    return TransformerEncoder(source, pooling=pooling or "mean", **settings, **of_networks, seed=seed).load()


def encoder_kind(source: str | os.PathLike[str]) -> str:
    """What a word, a folder or a name on the hub stands for: "bag", "sentence" or "network"."""
    folder = "" if source == "bag" else find_folder(source)
    if not folder or architecture(folder) == MODEL_TYPE:
        return "bag"
    if is_static(folder):
        raise untrained(folder)
    return "sentence" if os.path.isfile(os.path.join(folder, "modules.json")) else "network"


def untrained(folder: str) -> ModelError:
    """The error that says where static vectors go."""
    return ModelError(
        f"{folder!r} holds static vectors, which are not trained: they go where texts are only encoded, such as "
        "'label_encoder' of TextModel and Reranker. Name a network or 'bag' here."
    )


def architecture(source: str | os.PathLike[str]) -> str | None:
    """What the configuration of a network calls its kind, such as "bert"; None where it doesn't say."""
    return model_type(find_folder(source))


def refuse_beside(encoder: Any, **settings: Any) -> None:
    """Raise a ParameterError where anything is set beside an encoder that is given as an object."""
    if any(value is not None and value is not False for value in settings.values()):
        raise ParameterError(
            f"An encoder that is given as a {type(encoder).__name__} has its own parameters: max_length, pooling "
            "and the like must be set there."
        )


def refuse_of_bags(**settings: Any) -> None:
    """Raise a ParameterError where a bag is given what only networks have."""
    if any(value is not None and value is not False for value in settings.values()):
        raise ParameterError("A bag of words takes no pooling, no lora_rank and no gradient_checkpointing.")
