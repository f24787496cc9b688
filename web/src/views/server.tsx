// What the server does: live charts of its metrics, its models and their memory.
import {useEffect, useRef, useState} from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import {get, request} from '../api';
import {bytes, number, seconds, t} from '../i18n';
import {stateText} from '../parts/top_bar';
import {features} from '../state';
import {Keys} from './keys';

const POINTS = 150;
const INTERVAL_MS = 2000;

type Samples = Map<string, number>;

/// The text format of Prometheus: sums over labels by name, and single series by name and labels.
export function parseMetrics(text: string): Samples {
  const out: Samples = new Map();
  const add = (name: string, value: number) => out.set(name, (out.get(name) ?? 0) + value);
  for (const line of text.split('\n')) {
    if (!line || line.startsWith('#')) continue;
    const space = line.lastIndexOf(' ');
    const series = line.slice(0, space);
    const value = Number(line.slice(space + 1));
    const brace = series.indexOf('{');
    add(brace < 0 ? series : series.slice(0, brace), value);
    if (brace < 0) continue;
    const labels = series.slice(brace + 1, -1).split(',').filter((l) => !l.startsWith('model='));
    if (labels.length) add(`${series.slice(0, brace)}{${labels.join(',')}}`, value);
  }
  return out;
}

interface Line {
  label: string;
  color: string;
  read: (now: Samples, before: Samples, dt: number) => number | null;
}

const rate = (name: string) => (now: Samples, before: Samples, dt: number) =>
  now.has(name) ? Math.max(0, (now.get(name)! - (before.get(name) ?? 0)) / dt) : null;
const value = (name: string, factor = 1) => (now: Samples) => now.has(name) ? now.get(name)! * factor : null;
const mean = (name: string, factor: number) => (now: Samples, before: Samples) => {
  const count = (now.get(`${name}_count`) ?? 0) - (before.get(`${name}_count`) ?? 0);
  return count > 0 ? ((now.get(`${name}_sum`) ?? 0) - (before.get(`${name}_sum`) ?? 0)) / count * factor : null;
};
const share = (part: string, whole: string[]) => (now: Samples, before: Samples) => {
  const change = (n: string) => (now.get(n) ?? 0) - (before.get(n) ?? 0);
  const total = whole.reduce((sum, n) => sum + change(n), 0);
  return total > 0 ? change(part) / total * 100 : null;
};
const BLUE = '#4c6ae6', ORANGE = '#d97706', GREEN = '#16a34a';

const MIB = 1 << 20;
const TIERS = ['none', 'request', 'device', 'memory', 'disk'].map((tier) => `chimere_prefix_cache_tokens_total{tier="${tier}"}`);
const DRAFTS = ['accepted', 'rejected'].map((kind) => `chimere_tokens_total{kind="${kind}_draft"}`);

const CHARTS: {title: string; unit: string; lines: Line[]}[] = [
  {title: 'Throughput', unit: 'tokens/s', lines: [
    {label: 'generated', color: BLUE, read: rate('chimere_generation_tokens_total')},
    {label: 'prompts', color: ORANGE, read: rate('chimere_prompt_tokens_computed_total')}]},
  {title: 'Requests', unit: '', lines: [
    {label: 'running', color: BLUE, read: value('chimere_requests_running')},
    {label: 'waiting', color: ORANGE, read: value('chimere_requests_waiting')}]},
  {title: 'Time to the first token', unit: 'ms', lines: [
    {label: 'mean', color: BLUE, read: mean('chimere_time_to_first_token_seconds', 1000)}]},
  {title: 'Time between tokens', unit: 'ms', lines: [
    {label: 'mean', color: BLUE, read: mean('chimere_inter_token_seconds', 1000)}]},
  {title: 'Rows of a step', unit: '', lines: [{label: 'mean', color: BLUE, read: mean('chimere_batch_rows', 1)}]},
  {title: 'Memory of states', unit: 'MiB', lines: [
    {label: 'KV cache', color: BLUE, read: value('chimere_memory_bytes{kind="kv"}', 1 / MIB)},
    {label: 'recurrent', color: ORANGE, read: value('chimere_memory_bytes{kind="recurrent"}', 1 / MIB)},
    {label: 'prefix cache', color: GREEN, read: value('chimere_memory_bytes{kind="prefix_memory"}', 1 / MIB)}]},
  {title: 'Prompt tokens from the cache', unit: '%', lines: [
    {label: 'device', color: BLUE, read: share(TIERS[2]!, TIERS)},
    {label: 'memory', color: ORANGE, read: share(TIERS[3]!, TIERS)},
    {label: 'disk', color: GREEN, read: share(TIERS[4]!, TIERS)}]},
  {title: 'Drafted tokens accepted', unit: '%', lines: [
    {label: 'accepted', color: BLUE, read: share(DRAFTS[0]!, DRAFTS)}]},
];

function Chart({title, unit, lines, data}: {title: string; unit: string; lines: Line[]; data: uPlot.AlignedData}) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  useEffect(() => {
    const ink = getComputedStyle(element.current!).color;
    const grid = {stroke: 'rgba(128,128,128,0.2)', width: 1};
    const axis = {stroke: ink, grid, ticks: grid, font: '11px system-ui'};
    plot.current = new uPlot({
      width: element.current!.clientWidth, height: 160, cursor: {y: false},
      scales: {y: {range: (_u, _min, max) => [0, Math.max(1, max * 1.1)]}},
      series: [{}, ...lines.map((l) => ({label: t(l.label), stroke: l.color, width: 2, spanGaps: true,
                                         value: (_u: uPlot, v: number | null) => v === null ? '–' : `${number(v, v < 10 ? 1 : 0)} ${unit}`}))],
      axes: [axis, {...axis, size: 56}],
    }, data, element.current!);
    const observer = new ResizeObserver(() => plot.current?.setSize({width: element.current!.clientWidth, height: 160}));
    observer.observe(element.current!);
    return () => {
      observer.disconnect();
      plot.current?.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [data]);
  const last = lines.map((l, i) => {
    const v = (data[i + 1] as (number | null)[]).at(-1);
    return `${t(l.label)} ${v === null || v === undefined ? '–' : `${number(v, 1)} ${unit}`}`;
  }).join(', ');
  return (
    <figure class="chart">
      <h3>{t(title)}{unit && ` (${unit})`}</h3>
      <div ref={element} role="img" aria-label={`${t(title)}: ${last}`} />
    </figure>
  );
}

export default function Server() {
  const [status, setStatus] = useState<Record<string, any> | null>(null);
  const [requests, setRequests] = useState<Record<string, any>[]>([]);
  const [times, setTimes] = useState<number[]>([]);
  const series = useRef<(number | null)[][]>(CHARTS.flatMap((c) => c.lines.map(() => [])));
  const before = useRef<{samples: Samples; at: number} | null>(null);
  useEffect(() => {
    let stopped = false;
    const read = async () => {
      try {
        const [now, text, under] = await Promise.all([
          get<Record<string, any>>('v1/status'), request('metrics').then((r) => r.text()),
          features.value.requests ? get<{data: Record<string, any>[]}>('v1/requests') : {data: []},
        ]);
        if (stopped) return;
        setRequests(under.data);
        setStatus(now);
        const at = Date.now() / 1000;
        const samples = parseMetrics(text);
        const last = before.current;
        before.current = {samples, at};
        if (last) {
          CHARTS.flatMap((c) => c.lines).forEach((line, i) => {
            series.current[i] = [...series.current[i]!, line.read(samples, last.samples, at - last.at)].slice(-POINTS);
          });
          setTimes((old) => [...old, at].slice(-POINTS));
        }
      } catch { /* shown by the page's banner; the next reading tries again */ }
    };
    void read();
    const timer = setInterval(() => void read(), INTERVAL_MS);
    return () => {
      stopped = true;
      clearInterval(timer);
    };
  }, []);
  let line = 0;
  const charts = CHARTS.map((chart) => {
    const data = [times, ...chart.lines.map(() => series.current[line++]!)] as uPlot.AlignedData;
    return <Chart key={chart.title} {...chart} data={data} />;
  });
  const cards: [string, string][] = status ? [
    [t('Version'), String(status.version).replace(/^chimere-/, '')], [t('Running since'), duration(status.uptime_seconds)],
    [t('Connections'), number(status.connections ?? 0)],
    [t('Requests running'), number(status.requests?.running ?? 0)], [t('Requests waiting'), number(status.requests?.waiting ?? 0)],
  ] : [];
  return (
    <main id="main" class="view"><div class="view-inner">
      <h2>{t('Server')}</h2>
      <div class="cards">{cards.map(([name, text]) => <div class="card" key={name}><div class="name">{name}</div><div class="value">{text}</div></div>)}</div>
      <div class="charts">{charts}</div>
      {status?.models && (
        <>
          <h3>{t('Models')}</h3>
          <div class="table-box" tabIndex={0} role="group" aria-label={t('Models')}>
            <table class="plain-table">
              <thead><tr><th>{t('Name')}</th><th>{t('State')}</th><th class="figure">{t('Memory')}</th><th class="figure">{t('Requests')}</th></tr></thead>
              <tbody>{status.models.map((m: Record<string, any>) => (
                <tr key={m.id ?? m.name}>
                  <td>{m.id ?? m.name}</td>
                  <td>{stateText(m.state)}{m.state === 'loading' && m.progress !== undefined ? ` ${number(m.progress * 100)} %` : ''}</td>
                  <td class="figure">{bytes(m.bytes ?? 0)}</td><td class="figure">{number(m.requests ?? 0)}</td>
                </tr>
              ))}</tbody>
            </table>
          </div>
        </>
      )}
      {features.value.requests && (
        <section id="requests" aria-label={t('Requests under way')}>
          <h3>{t('Requests under way')}</h3>
          {!requests.length && <p class="faint">{t('There are none.')}</p>}
          {requests.length > 0 && (
            <div class="table-box" tabIndex={0} role="group" aria-label={t('Requests under way')}>
              <table class="plain-table">
                <thead><tr><th>{t('Key')}</th><th>{t('Route')}</th><th class="figure">{t('Size')}</th><th class="figure">{t('Since')}</th><th>{t('Id')}</th></tr></thead>
                <tbody>{requests.map((r) => (
                  <tr key={r.id}>
                    <td>{r.key || '–'}</td><td>{r.route}</td><td class="figure">{bytes(r.bytes)}</td>
                    <td class="figure">{seconds(r.seconds * 1000)}</td><td><code>{r.id}</code></td>
                  </tr>
                ))}</tbody>
              </table>
            </div>
          )}
        </section>
      )}
      {features.value.keys && <Keys />}
    </div></main>
  );
}

function duration(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1) return `${Math.floor(seconds)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 1 ? `${minutes} min` : hours < 48 ? `${hours} h ${minutes % 60} min` : t('{n} days', {n: Math.floor(hours / 24)});
}
