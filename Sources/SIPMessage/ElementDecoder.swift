internal import COsip2
import SIPGrammar

/// Header values and URIs through libosip2, which allocates inside the message's own storage: what it makes are slices of
/// the message, and nothing of it has to be freed.
///
/// libosip2 undoes `%HH` in URIs, which loses the difference between `%3D` and `=` and ends a value at `%00`. So it is shown
/// another byte in the place of `%`, one that a head may not hold, and the storage gets its `%` back at the end.
@safe
struct ElementDecoder {
    private let storage: ByteStorage
    private let base: UnsafeMutablePointer<UInt8>
    private let hidesPercent: Bool
    private let rawEnd: Int

    /// Stands for `%`; ASCII SUB, refused by ``HeaderScan``.
    private static let substitute: UInt8 = 0x1a
    private static let installed: Void = sip_arena_install()

    /// - Parameter used: how much of the storage the raw message takes; libosip2 allocates behind it.
    init(storage: ByteStorage, used: Int, hidesPercent: Bool) {
        _ = Self.installed
        self.storage = storage
        unsafe base = storage.baseAddress
        self.hidesPercent = hidesPercent
        rawEnd = used
        unsafe base.withMemoryRebound(to: CChar.self, capacity: storage.capacityInBytes) {
            unsafe sip_arena_enter($0, used, storage.capacityInBytes)
        }
    }

    /// Leaves the arena, in every case and before the message is used; the storage is never written again.
    func finish() {
        let used = sip_arena_leave()
        guard hidesPercent else { return }
        for index in rawEnd..<used where unsafe base[index] == Self.substitute { unsafe base[index] = UInt8(ascii: "%") }
    }

    enum Failure: Error { case syntax, outOfMemory }

    // MARK: Elements

    func uri(_ raw: ByteString) throws(Failure) -> SIPURI {
        let text = try copy(raw)
        var parsed: UnsafeMutablePointer<osip_uri_t>?
        try check(unsafe osip_uri_init(&parsed))
        guard let parsed = unsafe parsed else { throw .outOfMemory }
        try check(unsafe osip_uri_parse(parsed, text.characters))
        return try unsafe value(of: parsed, text: raw.contains(UInt8(ascii: "\r")) ? text.slice : raw)
    }

    func nameAddress(_ raw: ByteString) throws(Failure) -> NameAddress {
        let text = try copy(raw)
        var parsed: UnsafeMutablePointer<osip_from_t>?
        try check(unsafe osip_from_init(&parsed))
        guard let parsed = unsafe parsed else { throw .outOfMemory }
        try check(unsafe osip_from_parse(parsed, text.characters))
        guard let uri = unsafe parsed.pointee.url else { throw .syntax }
        return unsafe NameAddress(
            displayName: slice(parsed.pointee.displayname),
            uri: try value(of: uri, text: Self.uriText(in: text.slice)),
            parameters: try parameters(&parsed.pointee.gen_params))
    }

    func via(_ raw: ByteString) throws(Failure) -> Via {
        let text = try copy(raw)
        var parsed: UnsafeMutablePointer<osip_via_t>?
        try check(unsafe osip_via_init(&parsed))
        guard let parsed = unsafe parsed else { throw .outOfMemory }
        try check(unsafe osip_via_parse(parsed, text.characters))
        guard let transport = unsafe slice(parsed.pointee.protocol), let host = unsafe slice(parsed.pointee.host),
            let version = unsafe slice(parsed.pointee.version), version == "2.0"
        else { throw .syntax }
        return unsafe Via(
            transport: transport, host: try bracketed(host), port: try port(parsed.pointee.port),
            parameters: try parameters(&parsed.pointee.via_params))
    }

    /// `nil` for another scheme than Digest, and for credentials that lack what Digest needs.
    func credentials(_ raw: ByteString) throws(Failure) -> DigestCredentials? {
        guard raw.count > 6, raw[0..<6].equalsIgnoringCase("digest") else { return nil }
        let text = try copy(raw)
        var parsed: UnsafeMutablePointer<osip_authorization_t>?
        try check(unsafe osip_authorization_init(&parsed))
        guard let parsed = unsafe parsed else { throw .outOfMemory }
        guard unsafe osip_authorization_parse(parsed, text.characters) == OSIP_SUCCESS else { return nil }
        let found = unsafe parsed.pointee
        guard let username = unsafe slice(found.username), let realm = unsafe slice(found.realm),
            let nonce = unsafe slice(found.nonce), let uri = unsafe slice(found.uri),
            let response = unsafe slice(found.response)
        else { return nil }
        return unsafe DigestCredentials(
            username: plain(username), realm: plain(realm), nonce: plain(nonce), uri: plain(uri),
            response: plain(response), algorithm: slice(found.algorithm).map(plain),
            qop: slice(found.message_qop).map(plain), nonceCount: slice(found.nonce_count).map(plain),
            cnonce: slice(found.cnonce).map(plain), opaque: slice(found.opaque).map(plain))
    }

    // MARK: From C values

    private func value(of uri: UnsafeMutablePointer<osip_uri_t>, text: ByteString) throws(Failure) -> SIPURI {
        guard let name = unsafe slice(uri.pointee.scheme), !name.isEmpty else { throw .syntax }
        if name.equalsIgnoringCase("sip") || name.equalsIgnoringCase("sips") {
            guard let host = unsafe slice(uri.pointee.host), !host.isEmpty else { throw .syntax }
            return unsafe SIPURI(
                scheme: name.count == 3 ? .sip : .sips, user: slice(uri.pointee.username), password: slice(uri.pointee.password),
                host: try bracketed(host), port: try port(uri.pointee.port), parameters: try parameters(&uri.pointee.url_params),
                headers: text.firstIndex(of: UInt8(ascii: "?")).map { text[$0 + 1..<text.count] }, text: text)
        }
        let rest = unsafe slice(uri.pointee.string) ?? .empty
        let user = rest.firstIndex(of: UInt8(ascii: ";")).map { rest[0..<$0] } ?? rest
        let scheme: SIPURI.Scheme = name.equalsIgnoringCase("tel") ? .tel : .other(name.lowercased())
        return SIPURI(
            scheme: scheme, user: user, password: nil, host: .empty, port: nil, parameters: [], headers: nil, text: text)
    }

    private func parameters(_ list: UnsafeMutablePointer<osip_list_t>) throws(Failure) -> [Parameter] {
        guard unsafe list.pointee.nb_elt > 0 else { return [] }
        var found: [Parameter] = []
        unsafe found.reserveCapacity(Int(list.pointee.nb_elt))
        var node = unsafe list.pointee.node
        while let current = unsafe node {
            let element = unsafe current.pointee.element.assumingMemoryBound(to: osip_uri_param_t.self)
            guard let name = unsafe slice(element.pointee.gname) else { throw .syntax }
            unsafe found.append(Parameter(name: name, value: slice(element.pointee.gvalue)))
            unsafe node = current.pointee.next
        }
        return found
    }

    private func port(_ text: UnsafeMutablePointer<CChar>?) throws(Failure) -> UInt16? {
        guard let digits = unsafe slice(text) else { return nil }
        guard let port = digits.decimal(as: UInt16.self) else { throw .syntax }
        return port
    }

    /// libosip2 takes the brackets off an IPv6 host; a URI and a Via have them.
    private func bracketed(_ host: ByteString) throws(Failure) -> ByteString {
        guard host.contains(UInt8(ascii: ":")) else { return host }
        return ByteString([UInt8(ascii: "[")] + host.array + [UInt8(ascii: "]")])
    }

    /// A quoted value without its quotes. Credentials hold no escapes but in the user name; those need their `%` now.
    private func plain(_ value: ByteString) -> ByteString {
        let inner = value.unquoted()
        guard hidesPercent, inner.contains(Self.substitute) else { return inner }
        return ByteString(inner.array.map { $0 == Self.substitute ? UInt8(ascii: "%") : $0 })
    }

    /// The slice of the storage that a C string of libosip2 is.
    private func slice(_ text: UnsafeMutablePointer<CChar>?) -> ByteString? {
        guard let text = unsafe text else { return nil }
        let start = unsafe UnsafeRawPointer(text) - UnsafeRawPointer(base)
        var length = 0
        while unsafe text[length] != 0 { length += 1 }
        return ByteString(storage: storage, start: start, count: length)
    }

    // MARK: To C strings

    @safe private struct Copy {
        let characters: UnsafeMutablePointer<CChar>
        let slice: ByteString
    }

    /// The value as a C string in the arena, folds undone and `%` hidden.
    private func copy(_ raw: ByteString) throws(Failure) -> Copy {
        guard let room = unsafe sip_arena_take(raw.count + 1) else { throw .outOfMemory }
        let characters = unsafe room.assumingMemoryBound(to: CChar.self)
        raw.withSpan { span in
            for index in 0..<span.count {
                var byte = span[index]
                if byte == UInt8(ascii: "%") { byte = Self.substitute }
                if byte == 13 || byte == 10 || byte == 9 { byte = 32 }
                unsafe characters[index] = CChar(bitPattern: byte)
            }
        }
        unsafe characters[raw.count] = 0
        let start = unsafe UnsafeRawPointer(characters) - UnsafeRawPointer(base)
        return unsafe Copy(characters: characters, slice: ByteString(storage: storage, start: start, count: raw.count))
    }

    private func check(_ code: Int32) throws(Failure) {
        if code == OSIP_SUCCESS { return }
        throw code == OSIP_NOMEM ? .outOfMemory : .syntax
    }

    /// The URI inside a name-addr, or an addr-spec up to its header parameters.
    private static func uriText(in text: ByteString) -> ByteString {
        var isQuoted = false
        var index = 0
        while index < text.count {
            switch text[index] {
            case UInt8(ascii: "\\") where isQuoted: index += 1
            case UInt8(ascii: "\""): isQuoted.toggle()
            case UInt8(ascii: "<") where !isQuoted:
                let rest = text[index + 1..<text.count]
                return rest.firstIndex(of: UInt8(ascii: ">")).map { rest[0..<$0] } ?? rest
            case UInt8(ascii: ";") where !isQuoted: return text[0..<index]
            default: break
            }
            index += 1
        }
        return text
    }
}
