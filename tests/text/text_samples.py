"""Short public-domain paragraphs, and where the larger sets lie when somebody has them."""

import json
import lzma
from pathlib import Path

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"

ENGLISH = [  # Melville, Moby-Dick (1851)
    "Call me Ishmael. Some years ago—never mind how long precisely—having little or no money in my purse, "
    "and nothing particular to interest me on shore, I thought I would sail about a little and see the "
    "watery part of the world.",
    "It is a way I have of driving off the spleen and regulating the circulation.",
    "Whenever I find myself growing grim about the mouth; whenever it is a damp, drizzly November in my "
    "soul; whenever I find myself involuntarily pausing before coffin warehouses, and bringing up the rear "
    "of every funeral I meet; then, I account it high time to get to sea as soon as I can.",
    "This is my substitute for pistol and ball. With a philosophical flourish Cato throws himself upon his "
    "sword; I quietly take to the ship. There is nothing surprising in this.",
]
GERMAN = [  # Kafka, Die Verwandlung (1915)
    "Als Gregor Samsa eines Morgens aus unruhigen Träumen erwachte, fand er sich in seinem Bett zu einem "
    "ungeheueren Ungeziefer verwandelt.",
    "Er lag auf seinem panzerartig harten Rücken und sah, wenn er den Kopf ein wenig hob, seinen gewölbten, "
    "braunen, von bogenförmigen Versteifungen geteilten Bauch, auf dessen Höhe sich die Bettdecke, zum "
    "gänzlichen Niedergleiten bereit, kaum noch erhalten konnte.",
    "»Was ist mit mir geschehen?«, dachte er. Es war kein Traum. ÜBER DEM TISCH HING DAS BILD; STRAẞE, Straße.",
    "Seine vielen, im Vergleich zu seinem sonstigen Umfang kläglich dünnen Beine flimmerten ihm hilflos vor den Augen.",
]
FINNISH = [  # Kalevala (1849) and Kivi, Seitsemän veljestä (1870)
    "Mieleni minun tekevi, aivoni ajattelevi lähteäni laulamahan, saa'ani sanelemahan, sukuvirttä "
    "suoltamahan, lajivirttä laulamahan.",
    "Sanat suussani sulavat, puhe'et putoelevat, kielelleni kerkiävät, hampahilleni hajoovat.",
    "Jukolan talo, eteläisessä Hämeessä, seisoo erään mäen pohjoisella rinteellä, liki Toukolan kylää.",
    "Sen läheisin ympäristö on kivinen tanner, mutta alempana alkaa pellot, joissa, ennenkuin talo oli "
    "häviöön mennyt, lainehti teräinen vilja. ÄITI JA ÖYLÄTTI, Åbo.",
]
OTHERS = [
    "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему.",
    "Ἄνδρα μοι ἔννεπε, Μοῦσα, πολύτροπον. Ο ΟΔΥΣΣΕΥΣ ΚΑΙ Ο ΑΧΙΛΛΕΥΣ, Σ, ΑΣ. ΣΟΦΟΣ Σωκράτης",
    "İSTANBUL ve Iğdır, İzmir'in dağlarında çiçekler açar; İ",
    "道可道，非常道。名可名，非常名。 Python3入門 第3章 々 人",
    "吾輩は猫である。名前はまだ無い。 ｶﾀｶﾅ カタカナ",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "٣٤٥ १२३ e\u0301te\u0301 naïve snake_case __init__ x\u00a0y\u2003z \t\r\n\v\f\x1c\x85 a  b",
    "\ud800 lone \udfff surrogate\udc00s \U0001f600 \U00010400DESERET \U0001d54f x\x00y nul",
    "",
    "   \n ",
    "ꙀꙁǅȺⱥẞſKÅ ŉ ǰ ΐ ﬃ Ⅷ ⅷ ² ½",
]


def shared_texts(name: str, limit: int) -> list[str]:
    """The first documents of a shared set; an empty list when it is not there."""
    path = SHARED / name / "train.jsonl.xz"
    texts: list[str] = []
    if path.exists():
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                texts.append(" ".join(str(row[key]) for key in ("title", "author", "text") if row.get(key)))
                if len(texts) == limit:
                    break
    return texts
