// Answers that are kept by key, the least recently used let go; a failure is not kept.
import { isAbort } from "./api";

export class Kept<T> {
  private readonly answers = new Map<string, Promise<T>>();

  constructor(private readonly most: number) {}

  /** The kept answer, else a new one; where another reader stopped the one under way, it is made again. */
  async get(key: string, make: () => Promise<T>): Promise<T> {
    const kept = this.answers.get(key);
    if (!kept) return this.keep(key, make());
    this.answers.delete(key);
    this.answers.set(key, kept);
    try {
      return await kept;
    } catch (error) {
      if (isAbort(error)) return this.keep(key, make());
      throw error;
    }
  }

  clear(): void {
    this.answers.clear();
  }

  private keep(key: string, answer: Promise<T>): Promise<T> {
    this.answers.set(key, answer);
    answer.catch(() => {
      if (this.answers.get(key) === answer) this.answers.delete(key);
    });
    const oldest = this.answers.keys().next();
    if (this.answers.size > this.most && !oldest.done) this.answers.delete(oldest.value);
    return answer;
  }
}
