// Moves and zooms a drawing: by mouse, by touch with one or two fingers, by buttons and by keys.

import { byId } from "./dom.js";

const SMALLEST = 0.15;
const LARGEST = 3;
const LEGIBLE = 0.8; // fitting never makes the text smaller than this; the rest is out of sight then
const MARGIN = 16;
const STEP = 60; // of an arrow key

export class PanZoom {
  #place;
  #layer;
  #extent;
  #x = MARGIN;
  #y = MARGIN;
  #scale = 1;
  #pointers = new Map();
  dragged = false; // whether the pointer moved since it was pressed: no click then

  constructor(place, layer, extent) {
    this.#place = place;
    this.#layer = layer;
    this.#extent = extent;
    place.addEventListener("pointerdown", (event) => this.#down(event));
    place.addEventListener("pointermove", (event) => this.#move(event));
    for (const name of ["pointerup", "pointercancel"]) {
      place.addEventListener(name, (event) => this.#pointers.delete(event.pointerId));
    }
    place.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    place.addEventListener("keydown", (event) => this.#key(event));
    byId("zoom-in").addEventListener("click", () => this.#zoomBy(1.3));
    byId("zoom-out").addEventListener("click", () => this.#zoomBy(1 / 1.3));
    byId("zoom-fit").addEventListener("click", () => this.fit());
  }

  /** Brings what matters into sight, as large as it goes. */
  fit() {
    const { clientWidth: width, clientHeight: height } = this.#place;
    const { left, right, top, bottom } = this.#extent();
    if (!width || !height) return;
    const room = { x: width - 2 * MARGIN, y: height - 2 * MARGIN };
    this.#scale = Math.min(Math.max(Math.min(room.x / (right - left), room.y / (bottom - top)), LEGIBLE), 1);
    // Too wide: its end, where the labels are. Too high: its beginning, where the path is.
    this.#x = (right - left) * this.#scale > room.x ? width - MARGIN - right * this.#scale : MARGIN - left * this.#scale;
    this.#y = MARGIN - top * this.#scale;
    this.#apply();
  }

  #apply() {
    this.#layer.setAttribute("transform", `translate(${this.#x} ${this.#y}) scale(${this.#scale})`);
  }

  /** Zooms so that a point, of the place, stays where it is. */
  #zoomBy(factor, x = this.#place.clientWidth / 2, y = this.#place.clientHeight / 2) {
    const scale = Math.min(Math.max(this.#scale * factor, SMALLEST), LARGEST);
    const real = scale / this.#scale;
    this.#x = x - (x - this.#x) * real;
    this.#y = y - (y - this.#y) * real;
    this.#scale = scale;
    this.#apply();
  }

  #pan(x, y) {
    this.#x += x;
    this.#y += y;
    this.#apply();
  }

  #point(event) {
    const box = this.#place.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  #down(event) {
    if (!this.#pointers.size) this.dragged = false;
    this.#pointers.set(event.pointerId, this.#point(event));
  }

  #move(event) {
    const before = this.#pointers.get(event.pointerId);
    if (!before) return;
    const now = this.#point(event);
    const moved = Math.hypot(now.x - before.x, now.y - before.y);
    if (!this.dragged && moved < 4) return; // a click may tremble
    if (!this.dragged) this.#place.setPointerCapture(event.pointerId);
    this.dragged = true;
    const other = [...this.#pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const spread = (point) => Math.hypot(point.x - other.x, point.y - other.y) || 1;
      this.#zoomBy(spread(now) / spread(before), (now.x + other.x) / 2, (now.y + other.y) / 2);
      this.#pan((now.x - before.x) / 2, (now.y - before.y) / 2);
    } else {
      this.#pan(now.x - before.x, now.y - before.y);
    }
    this.#pointers.set(event.pointerId, now);
  }

  #wheel(event) {
    event.preventDefault();
    const { x, y } = this.#point(event);
    this.#zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), x, y);
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const actions = {
      ArrowLeft: () => this.#pan(STEP, 0),
      ArrowRight: () => this.#pan(-STEP, 0),
      ArrowUp: () => this.#pan(0, STEP),
      ArrowDown: () => this.#pan(0, -STEP),
      "+": () => this.#zoomBy(1.3),
      "=": () => this.#zoomBy(1.3),
      "-": () => this.#zoomBy(1 / 1.3),
      0: () => this.fit(),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }
}
