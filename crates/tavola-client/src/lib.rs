//! A client for Azure Tables, for Tavola, Azure and Cosmos endpoints alike.

// What an entity is: values, keys, entities, filters. Nothing here sends anything.

// What sends: accounts, credentials, attempts, retries, clients.
