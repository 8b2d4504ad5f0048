package import Bytes
package import SIPDialogs
package import SIPGrammar

/// Reads the next hops in a request's Route and Request-URI (RFC 3261 section 16.4).
package enum RouteSet {
    /// The next hops of a request, after this daemon's own Route values were removed.
    package struct Next {
        /// The Request-URI to send, which differs from the received Request-URI only after a strict router.
        package var requestURI: SIPURI
        /// The Route values of the proxies after this daemon.
        package var routes: ArraySlice<NameAddress>
        /// Whether the Route must be rewritten, because the daemon's own values were removed.
        package var changed: Bool

        /// The URI to which the request is sent: the first Route or else the Request-URI.
        package var target: SIPURI { routes.first?.uri ?? requestURI }

        /// Whether the request needs TLS on every hop (RFC 5630).
        package var isSecure: Bool { requestURI.scheme == .sips || target.scheme == .sips }

        /// The Route values for ``RequestEdits/routes``; `nil` for an unchanged Route.
        package var rows: [ByteString]? { changed ? texts : nil }

        /// The Route values as they are written into the header field.
        package var texts: [ByteString] { RouteSet.texts(of: routes) }
    }

    /// Route values as they are written into the header field.
    package static func texts(of routes: ArraySlice<NameAddress>) -> [ByteString] {
        routes.map { route in
            var text: [UInt8] = [UInt8(ascii: "<")]
            text.append(route.uri.text)
            text.append(UInt8(ascii: ">"))
            for parameter in route.parameters { text.append(parameter) }
            return ByteString(text)
        }
    }

    package enum Kind {
        /// The request has a dialog token that this daemon wrote into the Record-Route at the start of the dialog.
        case dialog(DialogPass, Next)
        case initial(Next)
        /// The request has a forged dialog token, or a dialog token that belongs to another dialog.
        case forged
    }

    /// Removes the daemon's own Route values, and reads the dialog token in them.
    ///
    /// The closure `open` decrypts a dialog token, and returns `nil` for a token that does not belong to the request.
    /// With `hasNodes`, a Route value of another node counts as the daemon's own, because its dialog token is good at
    /// each node.
    package static func preprocess(
        _ request: SIPRequest, identity: LocalIdentity, hasNodes: Bool = false, open: (ByteString) -> DialogPass?
    ) -> Kind {
        var next = Next(requestURI: request.uri, routes: request.routes[...], changed: false)
        var pass: DialogPass?
        // A strict router before this daemon has moved the daemon's Record-Route URI into the Request-URI.
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
        while let first = next.routes.first,
            identity.isUs(first.uri) || hasNodes && first.uri.user.flatMap({ open($0) }) != nil
        {
            guard let user = first.uri.user else {
                // A Route value with this daemon and no user is a phone's preloaded route to its outbound proxy, and is
                // removed.
                next.routes.removeFirst()
                next.changed = true
                continue
            }
            // A second Route value with the same dialog token has the transport of the dialog's other side. A Route
            // value with another dialog token stays, because the call passes through this daemon a second time.
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
