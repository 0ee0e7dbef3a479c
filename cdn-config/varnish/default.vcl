vcl 4.1;

# Where the gateway is: set this.
backend gateway {
    .host = "127.0.0.1";
    .port = "8080";
    .connect_timeout = 2s;
    # Not Varnish's default of 60s: on a connection that is used again that would leave the limit of its last request.
    .first_byte_timeout = 59s;
}

# The shop itself, or whoever has its files.
backend static {
    .host = "127.0.0.1";
    .port = "8081";
}

sub vcl_recv {
    # Where the request came from. What a shopper says about that counts for nothing.
    unset req.http.Forwarded;
    unset req.http.X-Forwarded-Host;
    set req.http.X-Forwarded-For = client.ip;

    # No connection is handed over: what is said on one afterwards nobody looks at.
    unset req.http.Upgrade;
    unset req.http.HTTP2-Settings;

    set req.backend_hint = gateway;
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }

    # The same for everyone: kept as long as the gateway says, which is a second for rooms and snapshots.
    if (req.url ~ "^/api/v1/queue/(sales/[A-Za-z0-9_-]+/(room|snapshot|draw)|assets/[A-Za-z0-9._-]+)$" ||
        req.url == "/.well-known/jwks.json") {
        unset req.http.Cookie;
        unset req.http.Authorization;
        return (hash);
    }

    # Only a path with one reading can be told to be static. Which paths are is yours to say.
    if (req.url ~ "^/(static|images)/" && req.url ~ "^[A-Za-z0-9/._~-]*(\?|$)" &&
        req.url !~ "^[^?]*(//|/\.)") {
        set req.backend_hint = static;
        unset req.http.Cookie;
        unset req.http.Authorization;
        # Nothing in our name, and no other path or method than the one looked at.
        unset req.http.Ropeline-Admission;
        unset req.http.Ropeline_Admission;
        unset req.http.Ropeline-Sale;
        unset req.http.Ropeline_Sale;
        unset req.http.Ropeline-Visitor;
        unset req.http.Ropeline_Visitor;
        unset req.http.Ropeline-Ticket;
        unset req.http.Ropeline_Ticket;
        unset req.http.X_Forwarded_For;
        unset req.http.CF-Connecting-IP;
        unset req.http.CF_Connecting_IP;
        unset req.http.Client-IP;
        unset req.http.Client_IP;
        unset req.http.Fastly-Client-IP;
        unset req.http.Fastly_Client_IP;
        unset req.http.Forwarded-For;
        unset req.http.Forwarded_For;
        unset req.http.True-Client-IP;
        unset req.http.True_Client_IP;
        unset req.http.X-Client-IP;
        unset req.http.X_Client_IP;
        unset req.http.X-Cluster-Client-IP;
        unset req.http.X_Cluster_Client_IP;
        unset req.http.X-Forwarded;
        unset req.http.X_Forwarded;
        unset req.http.X-Host;
        unset req.http.X_Host;
        unset req.http.X-HTTP-Method;
        unset req.http.X_HTTP_Method;
        unset req.http.X-HTTP-Method-Override;
        unset req.http.X_HTTP_Method_Override;
        unset req.http.X-Method-Override;
        unset req.http.X_Method_Override;
        unset req.http.X-Original-Host;
        unset req.http.X_Original_Host;
        unset req.http.X-Original-Method;
        unset req.http.X_Original_Method;
        unset req.http.X-Original-URI;
        unset req.http.X_Original_URI;
        unset req.http.X-Original-URL;
        unset req.http.X_Original_URL;
        unset req.http.X-Real-IP;
        unset req.http.X_Real_IP;
        unset req.http.X-Rewrite-URL;
        unset req.http.X_Rewrite_URL;
        unset req.http.X-Forwarded-Host;
        unset req.http.X_Forwarded_Host;
        unset req.http.X-Forwarded-Method;
        unset req.http.X_Forwarded_Method;
        unset req.http.X-Forwarded-Port;
        unset req.http.X_Forwarded_Port;
        unset req.http.X-Forwarded-Prefix;
        unset req.http.X_Forwarded_Prefix;
        unset req.http.X-Forwarded-Proto;
        unset req.http.X_Forwarded_Proto;
        unset req.http.X-Forwarded-Server;
        unset req.http.X_Forwarded_Server;
        unset req.http.X-Forwarded-URI;
        unset req.http.X_Forwarded_URI;
        unset req.http.X-Forwarded-User;
        unset req.http.X_Forwarded_User;
        unset req.http.X-Forwarded-Email;
        unset req.http.X_Forwarded_Email;
        unset req.http.X-Forwarded-Groups;
        unset req.http.X_Forwarded_Groups;
        unset req.http.X-Forwarded-Preferred-Username;
        unset req.http.X_Forwarded_Preferred_Username;
        unset req.http.X-Forwarded-Access-Token;
        unset req.http.X_Forwarded_Access_Token;
        unset req.http.X-Envoy-Original-Path;
        unset req.http.X_Envoy_Original_Path;
        unset req.http.X-Original-For;
        unset req.http.X_Original_For;
        unset req.http.X-Original-Forwarded-For;
        unset req.http.X_Original_Forwarded_For;
        unset req.http.X-URL-Scheme;
        unset req.http.X_URL_Scheme;
        unset req.http.X-Forwarded-Scheme;
        unset req.http.X_Forwarded_Scheme;
        unset req.http.X-Forwarded-Ssl;
        unset req.http.X_Forwarded_Ssl;
        unset req.http.X-Forwarded-Path;
        unset req.http.X_Forwarded_Path;
        return (hash);
    }

    # Everything else is somebody's own.
    return (pass);
}

sub vcl_backend_fetch {
    # What the gateway says by itself it says at once; the rest may be the shop's.
    if (bereq.url ~ "^/api/v1/queue/") {
        set bereq.first_byte_timeout = 5s;
    }
}

sub vcl_backend_response {
    # Stale is wrong here: a room that says "sold out" must reach everybody at once.
    set beresp.grace = 0s;
    set beresp.keep = 0s;
    # What the shop tells the queue is not for shoppers.
    unset beresp.http.Ropeline-Stock;
    unset beresp.http.Ropeline-Lease;
    # Without a word of its own nothing is kept, and nothing that sets a cookie. What says private or no-store is
    # passed by Varnish's own rules, which follow.
    if (bereq.uncacheable || !beresp.http.Cache-Control || beresp.http.Set-Cookie) {
        set beresp.uncacheable = true;
        set beresp.ttl = 0s;
        return (deliver);
    }
}

sub vcl_backend_error {
    set beresp.status = 503;
    set beresp.http.Content-Type = "text/html; charset=utf-8";
    set beresp.http.Cache-Control = "private, no-store";
    set beresp.http.Retry-After = "10";
    set beresp.http.Content-Security-Policy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    set beresp.http.X-Frame-Options = "DENY";
    set beresp.http.Referrer-Policy = "same-origin";
    set beresp.http.X-Content-Type-Options = "nosniff";
    set beresp.body = {"<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta http-equiv="refresh" content="10"><title>The waiting room cannot be reached</title><main><h1>The waiting room cannot be reached</h1><p>The queue is not answering right now. If you have joined it, your place is kept. This page tries again by itself every ten seconds.</p></main></html>
"};
    set beresp.ttl = 0s;
    return (deliver);
}
