// A first check of a JSON Schema while it is written. The server checks it in full.
import {t} from './i18n';

const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'];

/// Sentences about what is wrong; empty: nothing was found.
export function schemaProblems(text: string): string[] {
  if (!text.trim()) return [];
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch (error) {
    return [t('This is no JSON: {why}', {why: (error as Error).message})];
  }
  const out: string[] = [];
  const visit = (schema: unknown, path: string) => {
    if (typeof schema === 'boolean') return;
    if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) {
      out.push(t('{path} must be an object, true or false.', {path}));
      return;
    }
    const s = schema as Record<string, any>;
    for (const type of [s.type ?? []].flat()) {
      if (!TYPES.includes(type)) out.push(t('{path}: “{type}” is no type of JSON Schema.', {path, type: String(type)}));
    }
    if (s.required !== undefined && !(Array.isArray(s.required) && s.required.every((r: unknown) => typeof r === 'string'))) {
      out.push(t('{path}/required must be a list of names.', {path}));
    }
    if (s.enum !== undefined && !Array.isArray(s.enum)) out.push(t('{path}/enum must be a list.', {path}));
    if (typeof s.$ref === 'string' && s.$ref.startsWith('#/') && !resolve(root, s.$ref)) {
      out.push(t('{path}: there is nothing at {ref}.', {path, ref: s.$ref}));
    }
    for (const key of ['properties', 'patternProperties', '$defs', 'definitions']) {
      if (s[key] === undefined) continue;
      if (typeof s[key] !== 'object' || Array.isArray(s[key])) out.push(t('{path} must be an object.', {path: `${path}/${key}`}));
      else for (const [name, value] of Object.entries(s[key])) visit(value, `${path}/${key}/${name}`);
    }
    for (const key of ['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains']) {
      if (s[key] !== undefined && !Array.isArray(s[key])) visit(s[key], `${path}/${key}`);
    }
    for (const key of ['anyOf', 'oneOf', 'allOf', 'prefixItems']) {
      if (s[key] === undefined) continue;
      if (!Array.isArray(s[key])) out.push(t('{path} must be a list.', {path: `${path}/${key}`}));
      else s[key].forEach((value: unknown, i: number) => visit(value, `${path}/${key}/${i}`));
    }
  };
  visit(root, '#');
  return out;
}

function resolve(root: unknown, reference: string): boolean {
  let at: any = root;
  for (const part of reference.slice(2).split('/')) {
    at = at?.[part.replace(/~1/g, '/').replace(/~0/g, '~')];
    if (at === undefined) return false;
  }
  return true;
}
