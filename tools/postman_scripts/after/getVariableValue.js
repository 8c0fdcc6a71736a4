pm.collectionVariables.set("value", pm.response.json().value);
