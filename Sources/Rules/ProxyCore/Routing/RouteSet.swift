import Bytes
import SIPGrammar

/// What a request's Route header fields and Request-URI say about its way (RFC 3261 section 16.4).
enum RouteSet {
    /// How the request goes on, after our own Route values were taken off.
    struct Next {
        /// The Request-URI to send: changed only when the sender was a strict router.
        var requestURI: SIPURI
        /// The Route values that remain for others.
        var routes: ArraySlice<NameAddress>
        /// True when Route rows must be written anew, because ours were taken off.
        var changed: Bool

        /// Where to send: the first Route, else the Request-URI.
        var target: SIPURI { routes.first?.uri ?? requestURI }

        /// It may go over a protected hop only (RFC 5630).
        var isSecure: Bool { requestURI.scheme == .sips || target.scheme == .sips }

        /// Route values for ``RequestEdits/routes``: `nil` when the rows stay as they are.
        var rows: [ByteString]? { changed ? texts : nil }

        /// The Route values as they are written.
        var texts: [ByteString] {
            routes.map { route in
                var text: [UInt8] = [UInt8(ascii: "<")]
                text.append(route.uri.text)
                text.append(UInt8(ascii: ">"))
                for parameter in route.parameters { text.append(parameter) }
                return ByteString(text)
            }
        }
    }

    enum Kind {
        /// It carries one of our dialog tokens: we wrote Record-Route into the request that made its dialog.
        case dialog(DialogPass, Next)
        case initial(Next)
        /// It carries a token of ours that does not belong to it, or what was never one.
        case forged
    }

    /// `open` says what a token means in this request, `nil` for one that does not belong to it.
    static func preprocess(
        _ request: SIPRequest, identity: LocalIdentity, open: (ByteString) -> DialogPass?
    ) -> Kind {
        var next = Next(requestURI: request.uri, routes: request.routes[...], changed: false)
        var pass: DialogPass?
        // A strict router upstream put our Record-Route URI into the Request-URI.
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
                // A phone's preloaded route to its outbound proxy.
                next.routes.removeFirst()
                next.changed = true
                continue
            }
            // Record-Route is written twice, with one token, when the two sides use different transports. A second
            // token belongs to another pass of the call through here and is reached by way of the PBX.
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
