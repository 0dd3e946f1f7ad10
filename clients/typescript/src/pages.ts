// Lists that are longer than one response.

/** Some records of a list, and the cursor of the following ones: null on the last page. */
export type Page<T> = { data: T[]; next: string | null };

/** A list of records: `await` it for one page, or iterate with `for await` over all records, page by page. */
export class Pages<T> implements PromiseLike<Page<T>>, AsyncIterable<T> {
  readonly #load: (after?: string) => Promise<Page<T>>;

  constructor(load: (after?: string) => Promise<Page<T>>) {
    this.#load = load;
  }

  // biome-ignore lint/suspicious/noThenProperty: `await` returns the first page
  then<A = Page<T>, B = never>(
    resolved?: ((page: Page<T>) => A | PromiseLike<A>) | null,
    rejected?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#load().then(resolved, rejected);
  }

  catch<B>(rejected: (error: unknown) => B | PromiseLike<B>): Promise<Page<T> | B> {
    return this.#load().catch(rejected);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    let page = await this.#load();
    for (;;) {
      yield* page.data;
      if (page.next === null) return;
      page = await this.#load(page.next);
    }
  }
}
