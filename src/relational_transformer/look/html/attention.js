// Attention as lines: from each node to those that it attends to, as wide as the weight is large. Large ones have a head.

const LEAST = 0.08, LARGE = 0.3;

function drawAttention(frame, anchor, weights, { gap, below = false }) {
  const { nodes } = frame;
  for (let i = 0; i < nodes; i++) {
    for (let j = 0; j < nodes; j++) {
      const weight = weights[i * nodes + j] / 255;
      if (weight < LEAST) continue;
      const key = `attention ${i} ${j}`, opacity = (0.25 + 0.6 * weight).toFixed(2), width = (1 + 7 * weight).toFixed(1);
      if (i !== j) arrow(frame, "attention", key, anchor(i), anchor(j), { color: "var(--attention)", bend: 0.25, below, gap, width, opacity, head: weight >= LARGE });
      else frame.stage.put("attention", key, "circle", { r: gap + 2, fill: "none", stroke: "var(--attention)", "stroke-width": width, opacity }, { at: anchor(i) });
    }
  }
}
