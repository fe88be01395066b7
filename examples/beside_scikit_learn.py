"""A day with scikit-learn's tools: pipelines over data frames, a search, calibration, importances, a report by label.

Run it with ``python examples/beside_scikit_learn.py``; it takes some ten seconds, and needs scikit-learn, pandas and
matplotlib. Everything but the models comes from scikit-learn.
"""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import classification_report
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer, StandardScaler

from sylvan import TextModel, XRLinear, data

# 1. One class a row: folds are stratified, and accuracy is what it is for any classifier.
iris = load_iris(as_frame=True)
flowers = iris.target_names[iris.target]  # a name for each row
scaled = make_pipeline(StandardScaler(), XRLinear(cost=10))
own = make_pipeline(StandardScaler(), LogisticRegression())
for name, chain in (("XRLinear", scaled), ("LogisticRegression", own)):
    print(f"iris, {name}: accuracy {cross_val_score(chain, iris.data, flowers, scoring='accuracy').mean():.2f}")

# 2. A pipeline that selects columns of a frame by name, and a search over its parameters.
columns = make_column_transformer((StandardScaler(), ["petal length (cm)", "petal width (cm)"]))
chain = make_pipeline(columns, XRLinear()).set_output(transform="pandas")
search = GridSearchCV(chain, {"xrlinear__cost": [0.1, 1, 10, 100]}, cv=StratifiedKFold(5, shuffle=True, random_state=0))
search.fit(iris.data, flowers)
print(f"petals alone: {search.best_score_:.2f} with {search.best_params_}")
print("columns that it saw:", ", ".join(search.best_estimator_[-1].feature_names_in_))

# 3. Calibration: of the answers with a probability of 0.8, about 8 in 10 are right.
cancer = load_breast_cancer(as_frame=True)
X, X_test, y, y_test = train_test_split(cancer.data, cancer.target, stratify=cancer.target, random_state=0)
model = make_pipeline(StandardScaler(), XRLinear()).fit(X, y)
display = CalibrationDisplay.from_estimator(model, X_test, y_test, n_bins=5)
print(f"cancer: accuracy {model.score(X_test, y_test):.2f}; curve:")
for predicted, true in zip(display.prob_pred, display.prob_true, strict=True):
    print(f"  said {predicted:.2f}, was {true:.2f}")

# 4. Which columns matter: by how much the accuracy falls when one is shuffled.
importance = permutation_importance(model, X_test, y_test, n_repeats=3, random_state=0)
for place in np.argsort(-importance.importances_mean)[:3]:
    print(f"  {X.columns[place]}: {importance.importances_mean[place]:.3f}")

# 5. Several labels a row: subjects of books, with precision and recall for each of the frequent ones.
books = data.load_sample()
tagger = TextModel().fit(books.train.texts, books.train.labels)
binarizer = MultiLabelBinarizer(classes=tagger.classes_, sparse_output=True)
truth, found = binarizer.fit_transform(books.test.labels), tagger.predict(books.test.texts, expected="f1")
frequent = np.argsort(-tagger.model.label_counts_)[:5]
names = tagger.classes_[frequent]
print(classification_report(truth[:, frequent], found[:, frequent], target_names=names, zero_division=0))

# 6. The best three subjects of each book, as a data frame.
print(tagger.rank(books.test.texts[:2], k=3).to_frame("pandas").round(2).to_string(index=False))
