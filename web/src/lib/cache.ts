// Responses by key; the least recently used are evicted, and failures are not cached.
import { isAbort } from "./api";

export class ResponseCache<T> {
  private readonly responses = new Map<string, Promise<T>>();

  constructor(private readonly max: number) {}

  /** The cached response, else a new one; a request that another caller aborted is sent again. */
  async get(key: string, make: () => Promise<T>): Promise<T> {
    const cached = this.responses.get(key);
    if (!cached) return this.add(key, make());
    this.responses.delete(key);
    this.responses.set(key, cached);
    try {
      return await cached;
    } catch (error) {
      if (isAbort(error)) return this.add(key, make());
      throw error;
    }
  }

  clear(): void {
    this.responses.clear();
  }

  private add(key: string, response: Promise<T>): Promise<T> {
    this.responses.set(key, response);
    response.catch(() => {
      if (this.responses.get(key) === response) this.responses.delete(key);
    });
    const oldest = this.responses.keys().next();
    if (this.responses.size > this.max && !oldest.done) this.responses.delete(oldest.value);
    return response;
  }
}
