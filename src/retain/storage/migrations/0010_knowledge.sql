-- Knowledge: documents, and the chunks they are split into.

-- up
-- user_id is '' for a document of the whole tenant. `place` is what a document is known by among those of its user: its path,
-- or its title where it has none; adding it again replaces it.
create table documents (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    user_id {key} not null,
    place {key} not null,
    title {text} not null,
    path {key} not null,
    media {key} not null check (media in ('text', 'markdown', 'html', 'pdf')),
    digest {key} not null,
    bytes {int} not null,
    chunks {int} not null,
    source {text} not null,
    created_at {time} not null,
    updated_at {time} not null,
    primary key (tenant, id)
) {strict};
create unique index documents_by_place on documents (tenant, user_id, place);
create index documents_by_time on documents (tenant, updated_at, id);

-- A chunk has the blanks behind it: all of them, one after the other, are the document's text. start is the place of its
-- first character; page is that of a PDF.
create table document_chunks (
    tenant {key} not null,
    document_id {key} not null,
    seq {int} not null,
    title {text} not null,
    text {text} not null,
    start {int} not null,
    page {int},
    primary key (tenant, document_id, seq),
    foreign key (tenant, document_id) references documents (tenant, id) on delete cascade
) {strict};

-- down
drop table document_chunks;
drop table documents;
