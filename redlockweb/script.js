'use strict';
(() => {
  const at = id => document.getElementById(id);
  const form = at('view');
  const live = at('live');
  let source, skew = 0, delay;

  // span writes a duration as printable.Age does.
  const span = ms => {
    const s = Math.floor(Math.max(ms, 0) / 1000), m = Math.floor(s / 60), h = Math.floor(m / 60);
    if (s < 60) return `${s}s`;
    if (m < 60) return `${m}m${s % 60}s`;
    if (h < 24) return `${h}h${m % 60}m`;
    return `${Math.floor(h / 24)}d${h % 24}h`;
  };

  const tick = () => {
    const now = Date.now() + skew;
    for (const t of document.querySelectorAll('time[data-ago]')) set(t, span(now - t.dataset.ago));
    for (const t of document.querySelectorAll('time[data-left]')) set(t, span(t.dataset.left - now));
    set(at('clock'), new Date(now).toTimeString().slice(0, 8));
  };
  const set = (element, text) => { if (element.textContent !== text) element.textContent = text; };

  const state = (text, isLive) => {
    set(live, text);
    live.className = isLive ? 'live on' : 'live off';
    document.body.classList.toggle('lost', !isLive);
  };

  // list brings a table's rows into the server's order: without one it is as before. Rows that stay keep their place, and
  // the focus in them.
  const list = (body, {order, rows}) => {
    const known = new Map([...body.children].map(row => [row.dataset.key, row]));
    order ??= [...known.keys()];
    const template = document.createElement('template');
    let next = body.firstElementChild;
    for (const key of order) {
      let row = known.get(key);
      known.delete(key);
      if (rows[key]) {
        template.innerHTML = rows[key];
        const fresh = template.content.firstElementChild;
        if (row) {
          const focused = row.contains(document.activeElement);
          if (next === row) next = fresh;
          row.replaceWith(fresh);
          if (focused) fresh.querySelector('a')?.focus();
        }
        row = fresh;
      }
      if (row === next) next = row.nextElementSibling;
      else body.insertBefore(row, next);
    }
    for (const row of known.values()) row.remove();
  };

  const connect = () => {
    source?.close();
    const query = new URLSearchParams(new FormData(form));
    if (!query.get('filter')) query.delete('filter');
    if (query.get('sort') === 'need') query.delete('sort');
    history.replaceState(null, '', query.size ? `?${query}` : location.pathname);
    source = new EventSource(`events?${query}`);
    source.onmessage = event => {
      const update = JSON.parse(event.data);
      skew = update.now - Date.now();
      for (const [id, html] of Object.entries(update.parts)) at(id).innerHTML = html;
      for (const [id, rows] of Object.entries(update.lists)) list(at(id), rows);
      state('live', true);
      tick();
    };
    source.onerror = () => {
      state('not connected', false);
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 5000);
    };
  };

  const later = () => { clearTimeout(delay); delay = setTimeout(connect, 150); };
  form.addEventListener('input', later);
  form.addEventListener('submit', event => { event.preventDefault(); connect(); });
  document.addEventListener('keydown', event => {
    if (event.key === '/' && !/^(INPUT|SELECT)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      form.elements.filter.focus();
    }
  });
  setInterval(tick, 1000);
  state('connecting', true);
  connect();
})();
