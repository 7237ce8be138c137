// Answers by key; the least recently used are dropped, and failures are not cached.
import { isAbort } from "./api";

export class AnswerCache<T> {
  private readonly answers = new Map<string, Promise<T>>();

  constructor(private readonly max: number) {}

  /** The cached answer, else a new one; a request that another caller aborted is sent again. */
  async get(key: string, make: () => Promise<T>): Promise<T> {
    const cached = this.answers.get(key);
    if (!cached) return this.add(key, make());
    this.answers.delete(key);
    this.answers.set(key, cached);
    try {
      return await cached;
    } catch (error) {
      if (isAbort(error)) return this.add(key, make());
      throw error;
    }
  }

  clear(): void {
    this.answers.clear();
  }

  private add(key: string, answer: Promise<T>): Promise<T> {
    this.answers.set(key, answer);
    answer.catch(() => {
      if (this.answers.get(key) === answer) this.answers.delete(key);
    });
    const oldest = this.answers.keys().next();
    if (this.answers.size > this.max && !oldest.done) this.answers.delete(oldest.value);
    return answer;
  }
}
