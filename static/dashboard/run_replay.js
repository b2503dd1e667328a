// The slider that shows a run as it was; its moment is in the URL.
const FRAME = 66, FRAMES = 150, SAVED_AFTER = 250;

export class Replay {
  constructor(model, view, changed) {
    Object.assign(this, { model, view, changed, timer: 0, saving: 0 });
    [this.slider, this.button, this.now] = ["time", "play", "now"].map((id) => document.getElementById(id));
    this.steps = Number(this.slider.max);
    this.slider.addEventListener("input", () => { this.stop(); this.moveTo(Number(this.slider.value)); });
    this.button.addEventListener("click", () => (this.timer ? this.stop() : this.play()));
    this.now.addEventListener("click", () => { this.stop(); this.moveTo(this.steps); });
  }

  enable() {
    for (const each of [this.slider, this.button, this.now]) each.disabled = false;
    if (this.view.at === null) return;
    const { first, last } = this.model.range();
    this.slider.value = (this.steps * (this.view.at - first)) / (last - first);
  }

  moveTo(step) {
    const { first, last } = this.model.range();
    this.slider.value = step;
    this.view.at = step >= this.steps ? null : Math.round((first + ((last - first) * step) / this.steps) * 1000) / 1000;
    this.changed();
    clearTimeout(this.saving); // browsers limit how often a page changes its URL
    this.saving = setTimeout(() => this.view.save(), SAVED_AFTER);
  }

  play() {
    if (Number(this.slider.value) >= this.steps) this.slider.value = 0;
    this.button.textContent = "Pause";
    this.timer = setInterval(() => {
      const step = Math.min(this.steps, Number(this.slider.value) + this.steps / FRAMES);
      this.moveTo(step);
      if (step >= this.steps) this.stop();
    }, FRAME);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.button.textContent = "Play";
  }
}
