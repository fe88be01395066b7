"""The page's view of the tree, in a real browser against a real service."""

from typing import Any

import pytest
from page_steps import WHALES, Service, body, choose, tag
from playwright.sync_api import expect

pytest_plugins = ("page_fixtures",)


def item(page: Any, node: str) -> Any:
    """A node in the list."""
    return page.locator(f"#tree-list [role=treeitem][data-id='{node}']")


def below(page: Any, node: str) -> Any:
    """The nodes below it in the list."""
    return page.locator(f"#tree-list li:has(> [data-id='{node}']) > ul > li > [role=treeitem]")


def lit(node: Any) -> Any:
    """The row of a node that is on the lit path."""
    return node.locator("xpath=..")


def box(page: Any, node: str) -> Any:
    """A node in the drawing."""
    return page.locator(f"#drawing [data-id='{node}']:not([data-more])")


def transform(page: Any) -> tuple[float, float, float]:
    """Where the drawing stands, and how large."""
    x, y, scale = page.evaluate(
        "(([x, y, scale]) => [x, y, scale])(document.querySelector('#drawing svg > g')"
        ".getAttribute('transform').match(/-?[0-9.]+(e-[0-9]+)?/g).map(Number))"
    )
    return x, y, scale


def test_nodes_come_when_they_are_opened_and_keys_reach_all_of_them(page: Any, service: Service) -> None:
    asked: list[str] = []
    page.on("request", lambda request: "/tree?" in request.url and asked.append(request.url))
    page.click("nav a[data-view=tree]")
    root = item(page, "0/root")
    children = service.ask("v1/models/books/tree?node=0/root&depth=1")["node"]["children"]
    expect(below(page, "0/root")).to_have_count(min(len(children), 12))
    assert len(asked) == 1
    expect(box(page, children[0]["id"])).to_be_visible()

    page.focus("#tree-list [tabindex='0']")
    expect(root).to_be_focused()
    page.keyboard.press("ArrowDown")
    first = item(page, children[0]["id"])
    expect(first).to_be_focused()
    expect(first).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    expect(first).to_have_attribute("aria-expanded", "true")
    expect(below(page, children[0]["id"]).first).to_be_visible()
    assert len(asked) == 2
    page.keyboard.press("ArrowRight")
    expect(below(page, children[0]["id"]).first).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(first).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(first).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("End")
    expect(below(page, "0/root").last).to_be_focused()
    page.keyboard.press("Home")
    expect(root).to_be_focused()
    assert page.locator("#tree-list [tabindex='0']").count() == 1

    box(page, children[0]["id"]).click()  # the drawing opens it too, from what is there already
    expect(first).to_have_attribute("aria-expanded", "true")
    assert len(asked) == 2


def test_the_search_of_the_text_is_lit(page: Any, service: Service) -> None:
    tag(page)
    page.click("nav a[data-view=tree]")
    beam = service.ask("v1/models/books/beam", {"text": WHALES, "tree": 0})
    label, second = [label for label in beam["labels"]["labels"] if label in beam["paths"]][:2]
    pressed = page.locator("#tree-paths button[aria-pressed=true]")
    expect(pressed).to_have_attribute("title", label)
    for node in beam["paths"][label]:
        expect(lit(item(page, node))).to_have_class("on-path")
        assert "on-path" in (box(page, node).get_attribute("class") or "")
    followed = {node["id"] for layer in beam["layers"] for node in layer if node["followed"]}
    drawn = page.locator("#drawing .node.followed:not(.on-path)").evaluate_all("nodes => nodes.map(n => n.dataset.id)")
    assert drawn and set(drawn) <= followed
    expect(page.locator("#tree-chosen .chosen-title")).to_have_text(label)

    page.locator("#tree-paths button").nth(1).click()
    for node in beam["paths"][second]:
        expect(lit(item(page, node))).to_have_class("on-path")
    page.click("nav a[data-view=record]")
    page.fill("#text", "")
    page.click("nav a[data-view=tree]")
    expect(page.locator("#tree-paths button")).to_have_count(0)
    expect(page.locator("#drawing .on-path")).to_have_count(0)


def test_the_drawing_moves_and_zooms_by_buttons_keys_wheel_and_hand(page: Any) -> None:
    page.click("nav a[data-view=tree]")
    expect(page.locator("#drawing .node").nth(1)).to_be_visible()
    fitted = transform(page)
    page.click("#zoom-in")
    assert transform(page)[2] == pytest.approx(fitted[2] * 1.3)
    page.click("#zoom-fit")
    assert transform(page) == fitted
    page.focus("#drawing")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    assert transform(page)[:2] == (fitted[0] - 60, fitted[1] + 60)
    page.keyboard.press("-")
    assert transform(page)[2] == pytest.approx(fitted[2] / 1.3)
    page.keyboard.press("0")
    assert transform(page) == fitted

    area = page.locator("#drawing").bounding_box()
    x, y = area["x"] + area["width"] * 0.8, area["y"] + area["height"] * 0.8
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 50, y - 30, steps=3)
    page.mouse.up()
    assert transform(page)[:2] == pytest.approx((fitted[0] - 50, fitted[1] - 30), abs=0.01)
    moved = transform(page)
    page.mouse.wheel(0, -200)
    page.wait_for_function("s => !document.querySelector('#drawing svg > g').getAttribute('transform').endsWith(s)",
                           arg=f"scale({moved[2]:g})")  # fmt: skip
    x, y = x - 50 - area["x"] - 1, y - 30 - area["y"] - 1  # of the pointer, which what lies below it doesn't leave
    scaled = transform(page)
    assert scaled[2] > moved[2]
    for before, after, pointer in ((moved[0], scaled[0], x), (moved[1], scaled[1], y)):
        assert (pointer - after) / scaled[2] == pytest.approx((pointer - before) / moved[2], abs=2)


def test_no_title_runs_into_the_number_beside_it(page: Any) -> None:
    tag(page)
    page.click("nav a[data-view=tree]")
    expect(page.locator("#drawing .node.on-path").last).to_be_visible()
    for button in ("#zoom-fit", "#zoom-out"):
        page.click(button)
        lines = page.evaluate(
            "[...document.querySelectorAll('#drawing .node-title')].map(title => [title.textContent,"
            " title.getBBox().width, Number(title.parentElement.getAttribute('width'))])"
        )
        assert len(lines) > 30
        assert [line for line in lines if line[1] > line[2] + 0.1] == []
        crossed = page.evaluate(
            "[...document.querySelectorAll('#drawing .node')].filter(node => {"
            " const [note] = node.querySelectorAll('.node-note'); const titles = [...node.querySelectorAll('svg')];"
            " const box = note?.getBoundingClientRect();"
            " return box?.width && titles.map(title => title.firstChild.getBoundingClientRect()).some(title =>"
            "   title.right > box.left && title.bottom > box.top + 2 && title.top < box.bottom - 2); })"
            ".map(node => node.textContent)"
        )
        assert crossed == []


def test_two_fingers_zoom(open_page: Any, service: Service) -> None:
    page = open_page(f"{service.url}#tree", has_touch=True)
    expect(page.locator("#drawing .node").nth(1)).to_be_visible()
    before = transform(page)
    area = page.locator("#drawing").bounding_box()
    touch = page.context.new_cdp_session(page)

    def fingers(kind: str, *places: tuple[float, float]) -> None:
        points = [{"x": area["x"] + x, "y": area["y"] + y, "id": i} for i, (x, y) in enumerate(places)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    fingers("touchStart", (300, 300), (400, 300))
    for spread in (20, 40, 60):
        fingers("touchMove", (300 - spread, 300), (400 + spread, 300))
    fingers("touchEnd")
    page.wait_for_function("s => Number(document.querySelector('#drawing svg > g').getAttribute('transform')"
                           ".match(/scale\\((.*)\\)/)[1]) > s", arg=before[2] * 1.5)  # fmt: skip


def test_a_branch_of_the_tree_is_allowed_and_a_label_explained(page: Any, service: Service) -> None:
    rows = tag(page)
    rows.first.locator("button.label").click()
    name = page.locator("#explain-title").inner_text()
    path = service.ask("v1/models/books/explain", {"text": WHALES, "label": name})["tree_paths"][0]
    page.click("#explain summary")
    page.get_by_role("button", name="Show it in the tree").first.click()
    expect(page.locator("#tree-chosen .chosen-title")).to_have_text(name)
    for node in path:
        expect(lit(item(page, node))).to_have_class("on-path")

    item(page, path[0]).focus()
    page.keyboard.press("Enter")
    with page.expect_request(lambda request: request.url.endswith("/rank")) as asked:
        page.get_by_role("button", name="Allow only this branch").click()
    assert body(asked.value)["branch"] == path[0]
    expect(page.get_by_role("button", name="Allow all branches again").locator("visible=true")).to_be_visible()

    item(page, path[-1]).focus()
    page.keyboard.press(" ")
    page.click("nav a[data-view=record]")
    page.keyboard.press("Escape")
    page.click("nav a[data-view=tree]")
    page.get_by_role("button", name="Why this subject, or why not?").click()
    expect(page.locator("#explain-title")).to_have_text(name)
    expect(page.locator("#chips .chip")).to_contain_text("Only below")
    expect(page).to_have_url(f"{service.url}#record")


def test_a_leaf_whose_label_is_an_address_is_explained(page: Any, service: Service) -> None:
    choose(page, "subjects")
    page.fill("#text", WHALES)
    page.click("nav a[data-view=tree]")
    beam = service.ask("v1/models/subjects/beam", {"text": WHALES})
    names = dict(zip(beam["labels"]["labels"], beam["labels"]["names"], strict=True))
    _, label = [label for label in names if label in beam["paths"]][:2]
    page.locator("#tree-paths button").nth(1).click()
    expect(page.locator("#tree-chosen .chosen-title")).to_have_text(names[label])
    with page.expect_request(lambda request: request.url.endswith("/explain")) as asked:
        page.get_by_role("button", name="Why this subject, or why not?").click()
    assert body(asked.value)["label"] == label
    expect(page.locator("#explain-title")).to_have_text(names[label])
    expect(page.locator("#explain-title")).to_be_focused()
    expect(page.locator("#explain .step-title").last).to_have_text(names[label])


def test_trees_of_other_models(page: Any, service: Service) -> None:
    page.click("nav a[data-view=tree]")
    page.select_option("#tree-number", "1")  # Books has two
    expect(item(page, "1/root")).to_be_visible()
    choose(page, "rows")  # takes no texts; its tree is there to look at
    expect(item(page, "0/root")).to_be_visible()
    expect(page.locator("#tree-pick")).to_be_hidden()
    none = {**service.ask("v1/models/plain"), "n_trees": 0}
    page.route("**/v1/models/plain", lambda route: route.fulfill(json=none))
    choose(page, "plain")
    expect(page.locator("#record")).to_be_visible()  # a model without a tree has no such view, and no tab for it
    expect(page.locator("nav a[data-view=tree]")).to_be_hidden()
    choose(page, "books", "Books")
    expect(page.locator("nav a[data-view=tree]")).to_be_visible()


def test_more_children_than_fit(page: Any, service: Service) -> None:
    choose(page, "plain")
    page.click("nav a[data-view=tree]")
    node = service.ask("v1/models/plain/tree?node=0/root&depth=1")["node"]
    while len(node["children"]) <= 12:
        item(page, node["id"]).focus()
        node = service.ask(f"v1/models/plain/tree?node={node['children'][0]['id']}&depth=1")["node"]
        item(page, node["id"]).focus()
        page.keyboard.press("ArrowRight")
        expect(item(page, node["id"])).to_have_attribute("aria-expanded", "true")
    here = below(page, node["id"])
    expect(here).to_have_count(13)
    expect(here.last).to_have_text(f"…Show {len(node['children']) - 12} more")
    here.last.focus()
    page.keyboard.press("Enter")
    wanted = min(len(node["children"]), 52)
    expect(here).to_have_count(wanted + (len(node["children"]) > 52))
    expect(here.nth(11)).to_be_focused()
