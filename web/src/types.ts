// The data that the page works with.

/// A token of an answer, with the most likely alternatives: [text, log-probability].
export interface TokenInfo {
  text: string;
  logprob: number;
  top: [string, number][];
  drafted?: boolean;  ///< a drafter had proposed it
}

/// A passage that the orchestrator gave the model; [n] in the answer cites it.
export interface Source {
  n: number;
  name: string;
  document: string;
  place: string;
  collection: string;
  text: string;
  quote?: string;
  relevance: number;
  cited: boolean;
}

/// What the orchestrator did before the answer.
export interface Step {
  name: string;
  seconds: number;
  details: Record<string, unknown>;
}

export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
}

export interface Usage {
  prompt: number;
  cached: number;
  completion: number;
  reasoning: number;
  draftsAccepted: number;
  draftsRejected: number;
}

/// What a message has besides its text. Kept by the server as it is.
export interface MessageData {
  model?: string;
  finish?: string;
  error?: string;
  errorCode?: string;  ///< the server's, where it refused
  usage?: Usage;
  firstMs?: number;  ///< until the first token
  totalMs?: number;
  reasoningMs?: number;
  toolCalls?: ToolCall[];
  toolCallId?: string;  ///< of a tool's message: the call that it answers
  tokens?: TokenInfo[];
  steps?: Step[];
  sources?: Source[];
  verdict?: string;  ///< of the passages: correct, ambiguous, incorrect
  mode?: string;     ///< of the orchestrator: fast, quality, ultra
}

export type Role = 'user' | 'assistant' | 'system' | 'tool';

/// Messages form a tree: an edited or regenerated one is another child of the same parent.
export interface Message {
  id: string;
  parent: string;  ///< empty: a first message
  role: Role;
  content: string;
  reasoning: string;
  created: number;
  complete: boolean;
  data: MessageData;
}

/// Choices for generations. Absent options are the server's.
export interface Choices {
  model?: string;
  system?: string;
  options?: Record<string, unknown>;  ///< sampling options by field
  maxTokens?: number;
  reasoning?: string;  ///< an effort, or a number of tokens; absent: the server's
  schema?: string;     ///< JSON Schema of answers, as text
  tools?: string;      ///< a JSON list of tools, as text
  memories?: string[];
  collections?: string[];  ///< for the orchestrator
  mode?: string;           ///< the same; absent: auto
  logprobs?: boolean;
}

export interface ConversationInfo {
  id: string;
  title: string;
  folder: string;
  pinned: boolean;
  leaf: string;
  created: number;
  updated: number;
  count: number;
  isPrivate: boolean;  ///< kept in this browser only
  isFleeting?: boolean;  ///< kept nowhere
  excerpt?: string;    ///< of a search, with \x02 and \x03 around the words
  data: {choices?: Choices};
}

export interface Model {
  id: string;
  state?: string;
  context_length?: number;
}

/// A row of the server's table of sampling options.
export interface Option {
  field: string;
  flag: string;
  type: 'integer' | 'number' | 'text' | 'list';
  help: string;
  default: unknown;
  min?: number;
  max?: number;
  choices?: (string | number)[];
}
