const { access_token, refresh_token, expires_in } = pm.response.json();
pm.collectionVariables.set("accessToken", access_token);
pm.collectionVariables.set("refreshToken", refresh_token);
pm.collectionVariables.set("expiresAt", Date.now() + expires_in * 1000);
