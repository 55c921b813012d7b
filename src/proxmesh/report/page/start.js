// What the page is made from: its document, and plotly, both compressed inside.

const byId = (id) => document.getElementById(id);

async function unpacked(id) {
  const letters = atob(byId(id).textContent);
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(plain).text();
}

async function loadPlotly() {
  const code = await unpacked("plotly");
  const script = document.createElement("script");
  script.nonce = document.querySelector("script[nonce]").nonce;
  script.textContent = code;
  document.head.append(script);
  script.remove();
  byId("plotly").remove(); // two megabytes that nobody needs any more
}
