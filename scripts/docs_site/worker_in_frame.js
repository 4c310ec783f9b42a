// Search in a site that was opened as a file. Browsers start no Worker there; this one runs its script in an iframe.
// The theme looks for the name IFrameWorker, and for the script's element in the frame.
(() => {
  if (location.protocol !== "file:") return;

  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.onerror = null;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.frame = frame;
      const inner = frame.contentWindow;
      inner.document.open();
      inner.postMessage = (data) => this.answer(data);
      inner.importScripts = (...urls) => urls.reduce((before, each) => before.then(() => load(inner.document, each)), Promise.resolve());
      inner.document.write("<!DOCTYPE html><body></body>");
      inner.document.close();
      this.ready = load(inner.document, new URL(url, location.href).href);
    }

    postMessage(data) {
      const inner = this.frame.contentWindow;
      this.ready.then(() => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
    }

    answer(data) {
      const event = new MessageEvent("message", { data });
      if (this.onmessage) this.onmessage(event);
      this.dispatchEvent(event);
    }

    terminate() {
      this.frame.remove();
    }
  }

  function load(where, url) {
    return new Promise((done, failed) => {
      const script = where.createElement("script");
      script.src = url;
      script.onload = () => done();
      script.onerror = () => failed(new Error(`${url} cannot be loaded`));
      where.body.append(script);
    });
  }

  window.IFrameWorker = window.Worker = IFrameWorker;
})();
