package import Bytes
package import SIPDialogs
package import SIPGrammar

/// The next hops that a request's Route header fields and Request-URI name (RFC 3261 section 16.4).
package enum RouteSet {
    /// The target of the request after our own Route values were removed.
    package struct Next {
        /// The Request-URI to send. It differs from the received one only if the sender was a strict router.
        package var requestURI: SIPURI
        /// The Route values of the proxies after us.
        package var routes: ArraySlice<NameAddress>
        /// Whether the Route rows must be rewritten, because our own values were removed.
        package var changed: Bool

        /// The URI to send to: the first Route, or else the Request-URI.
        package var target: SIPURI { routes.first?.uri ?? requestURI }

        /// Whether the request may use protected hops only (RFC 5630).
        package var isSecure: Bool { requestURI.scheme == .sips || target.scheme == .sips }

        /// The Route values for ``RequestEdits/routes``. `nil` if the rows stay unchanged.
        package var rows: [ByteString]? { changed ? texts : nil }

        /// The Route values in the form of the header field.
        package var texts: [ByteString] {
            routes.map { route in
                var text: [UInt8] = [UInt8(ascii: "<")]
                text.append(route.uri.text)
                text.append(UInt8(ascii: ">"))
                for parameter in route.parameters { text.append(parameter) }
                return ByteString(text)
            }
        }
    }

    package enum Kind {
        /// The request carries one of our dialog tokens. We put the token into Record-Route of the request that began
        /// the dialog.
        case dialog(DialogPass, Next)
        case initial(Next)
        /// The request carries a token that belongs to another dialog, or a forged one.
        case forged
    }

    /// Removes our own Route values and reads the dialog token. `open` decodes a token; `nil` if the token does not
    /// belong to this request.
    package static func preprocess(
        _ request: SIPRequest, identity: LocalIdentity, open: (ByteString) -> DialogPass?
    ) -> Kind {
        var next = Next(requestURI: request.uri, routes: request.routes[...], changed: false)
        var pass: DialogPass?
        // A strict router before us moved our Record-Route URI into the Request-URI.
        if let last = next.routes.last, identity.isUs(request.uri), request.uri.parameters.contains("lr"),
            let user = request.uri.user
        {
            guard let found = open(user) else { return .forged }
            pass = found
            next.requestURI = last.uri
            next.routes.removeLast()
            next.changed = true
        }
        var tokenText: ByteString?
        while let first = next.routes.first, identity.isUs(first.uri) {
            guard let user = first.uri.user else {
                // A Route value without a user part is a phone's preloaded route to its outbound proxy.
                next.routes.removeFirst()
                next.changed = true
                continue
            }
            // If the two sides use different transports, we write Record-Route twice with the same token. A Route value
            // with another token belongs to a second pass of the call through this daemon, and the PBX comes before
            // that pass.
            if let tokenText, user != tokenText { break }
            next.routes.removeFirst()
            next.changed = true
            if tokenText == nil, pass == nil {
                guard let found = open(user) else { return .forged }
                pass = found
            }
            tokenText = user
        }
        if let pass { return .dialog(pass, next) }
        return .initial(next)
    }
}
