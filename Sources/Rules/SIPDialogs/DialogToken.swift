package import Addressing
package import Bytes
package import Timekeeping

/// One side of a dialog, with the flow by which the proxy reaches the side.
package struct DialogSide: Hashable, Sendable {
    package enum Party: Hashable, Sendable {
        /// The side is a trusted peer, which is known by its address.
        case peer
        /// The side is the upstream, which gets the calls of phones.
        case upstream
        /// The side is a phone that was registered on the flow; the phone's binding leads to its later flows.
        case phone(DeviceID)
        /// The side is a phone without registration on the flow; the number is a hash of the authenticated AOR (0
        /// without a password).
        case caller(UInt64)

        /// Whether the side is a phone, which must keep its name from the start of the dialog (T20.7).
        package var isPhone: Bool {
            switch self {
            case .peer, .upstream: false
            case .phone, .caller: true
            }
        }
    }

    package let party: Party
    /// The side's flow for the request that began the dialog.
    package let flow: Flow

    package init(_ party: Party, on flow: Flow) {
        self.party = party
        self.flow = flow
    }
}

/// The two sides of a dialog, encrypted in the user part of the proxy's Record-Route URI (RFC 5626 section 5.2, T20).
///
/// The dialog token comes back in Route, so the proxy need not remember the call. The encryption binds the dialog token
/// to the Call-ID and the caller's tag. If the From tag decrypts the dialog token, the caller has sent the request. If
/// the To tag decrypts the dialog token, the callee has sent the request.
package struct DialogToken: Hashable, Sendable {
    /// The time at which the dialog began, in whole seconds.
    package let made: UnixTime
    package let caller: DialogSide
    package let callee: DialogSide
    /// The names that the sides must keep; `nil` if no side must keep its name, or if the token is from an older
    /// version.
    package let names: DialogNames?

    package init(made: UnixTime, caller: DialogSide, callee: DialogSide, names: DialogNames? = nil) {
        self.made = made
        self.caller = caller
        self.callee = callee
        self.names = names
    }

    /// The unencrypted bytes of the dialog token.
    ///
    /// The bytes contain the number of the daemon's run, because connection numbers are valid only in one run.
    package func encoded(in run: UInt32) -> [UInt8] {
        [UInt8](capacity: 96) { out in
            out.append(big: UInt64(UInt32(clamping: made.seconds)), count: 4)
            Self.encode(caller, into: &out)
            Self.encode(callee, into: &out)
            if Self.number(of: caller.flow) != nil || Self.number(of: callee.flow) != nil {
                out.append(big: UInt64(run), count: 4)
            }
            guard let names else { return }
            out.append(big: UInt64(names.key), count: 3)
            if let caller = names.caller {
                out.append(big: UInt64(caller.uri), count: 3)
                out.append(big: UInt64(caller.name), count: 3)
            }
            if let callee = names.callee {
                out.append(big: UInt64(callee.uri), count: 3)
                if let name = callee.name { out.append(big: UInt64(name), count: 3) }
            }
        }
    }

    /// Reads the bytes of a decrypted dialog token; a connection from before a restart is treated as closed.
    package init?(_ plain: [UInt8], in run: UInt32) {
        let bytes = plain.span
        var index = 0
        guard let seconds = Self.take(4, of: bytes, at: &index), let caller = Self.decode(bytes, at: &index),
            let callee = Self.decode(bytes, at: &index)
        else { return nil }
        var isOfThisRun = true
        if caller.hasConnection || callee.hasConnection {
            guard let number = Self.take(4, of: bytes, at: &index) else { return nil }
            isOfThisRun = number == UInt64(run)
        }
        var names: DialogNames?
        if index < bytes.count {
            guard let read = Self.names(bytes, at: &index, caller.party, callee.party) else { return nil }
            names = read
        }
        guard index == bytes.count else { return nil }
        self.init(
            made: UnixTime(seconds: Int64(seconds)), caller: caller.side(isOfThisRun: isOfThisRun),
            callee: callee.side(isOfThisRun: isOfThisRun), names: names)
    }

    /// Reads the names of the dialog's phones; a dialog token has no names of PBXs.
    private static func names(
        _ bytes: Span<UInt8>, at index: inout Int, _ caller: DialogSide.Party, _ callee: DialogSide.Party
    ) -> DialogNames? {
        guard let key = take(3, of: bytes, at: &index) else { return nil }
        var first: DialogNames.Caller?
        if caller.isPhone {
            guard let uri = take(3, of: bytes, at: &index), let name = take(3, of: bytes, at: &index) else {
                return nil
            }
            first = DialogNames.Caller(
                uri: UInt32(truncatingIfNeeded: uri), name: UInt32(truncatingIfNeeded: name))
        }
        var second: DialogNames.Callee?
        if callee.isPhone {
            guard let uri = take(3, of: bytes, at: &index) else { return nil }
            let name = index < bytes.count ? take(3, of: bytes, at: &index).map { UInt32(truncatingIfNeeded: $0) } : nil
            second = DialogNames.Callee(uri: UInt32(truncatingIfNeeded: uri), name: name)
        }
        return DialogNames(key: UInt32(truncatingIfNeeded: key), caller: first, callee: second)
    }

    // MARK: One side of a dialog: flags, listener, connection, address, port, and the data of its party

    /// The flag that marks an IPv4 address.
    private static let v4: UInt8 = 1
    /// The flag of a flow over a connection (TCP, TLS or WebSocket), followed by the connection's number.
    private static let connected: UInt8 = 8

    private static func encode(_ side: DialogSide, into out: inout ByteSink) {
        let (flow, isV4) = (side.flow, side.flow.remote.address.isV4)
        let number = number(of: flow)
        let kind: UInt8 =
            switch side.party {
            case .peer: 0
            case .upstream: 1
            case .phone: 2
            case .caller: 3
            }
        out.append(
            (isV4 ? v4 : 0) | kind << 1 | (number == nil ? 0 : connected) | flow.transport.rawValue << 4)
        out.append(UInt8(truncatingIfNeeded: flow.listener))
        if let number { out.append(big: UInt64(number), count: 4) }
        if isV4 {
            out.append(big: UInt64(flow.remote.address.v4Bits), count: 4)
        } else {
            out.append(big: flow.remote.address.high)
            out.append(big: flow.remote.address.low)
        }
        out.append(big: UInt64(flow.remote.port), count: 2)
        switch side.party {
        case .peer, .upstream: break
        case .phone(let binding): out.append(big: binding.rawValue)
        case .caller(let hash): out.append(big: hash, count: 6)
        }
    }

    /// The connection number of a flow; `nil` without a connection.
    ///
    /// A number above four bytes becomes 0, which is treated as closed.
    private static func number(of flow: Flow) -> UInt32? {
        flow.isConnection || flow.isClosed ? UInt32(exactly: flow.connection) ?? 0 : nil
    }

    private struct DecodedSide {
        let party: DialogSide.Party
        let flow: Flow
        let hasConnection: Bool

        func side(isOfThisRun: Bool) -> DialogSide {
            let isGone = hasConnection && (!isOfThisRun || flow.connection == 0)
            return DialogSide(party, on: isGone ? flow.closed : flow)
        }
    }

    private static func decode(_ bytes: Span<UInt8>, at index: inout Int) -> DecodedSide? {
        guard let head = take(2, of: bytes, at: &index) else { return nil }
        let (flags, listener) = (UInt8(truncatingIfNeeded: head >> 8), UInt8(truncatingIfNeeded: head))
        guard let transport = Transport(rawValue: flags >> 4) else { return nil }
        var connection: UInt64 = 0
        if flags & connected != 0 {
            guard let number = take(4, of: bytes, at: &index) else { return nil }
            connection = number
        }
        let address: IPAddress
        if flags & v4 != 0 {
            guard let bits = take(4, of: bytes, at: &index) else { return nil }
            address = IPAddress(v4: UInt32(truncatingIfNeeded: bits))
        } else {
            guard let high = take(8, of: bytes, at: &index), let low = take(8, of: bytes, at: &index) else {
                return nil
            }
            address = IPAddress(high: high, low: low)
        }
        guard let port = take(2, of: bytes, at: &index) else { return nil }
        let party: DialogSide.Party
        switch flags >> 1 & 3 {
        case 0: party = .peer
        case 1: party = .upstream
        case 2:
            guard let number = take(8, of: bytes, at: &index) else { return nil }
            party = .phone(DeviceID(rawValue: number))
        default:
            guard let hash = take(6, of: bytes, at: &index) else { return nil }
            party = .caller(hash)
        }
        let flow = Flow(
            transport: transport, listener: UInt16(listener), connection: connection,
            remote: Endpoint(address, UInt16(truncatingIfNeeded: port)))
        return DecodedSide(party: party, flow: flow, hasConnection: flags & connected != 0)
    }

    private static func take(_ count: Int, of bytes: Span<UInt8>, at index: inout Int) -> UInt64? {
        guard count <= bytes.count - index else { return nil }
        var value: UInt64 = 0
        for place in index..<index + count { value = value << 8 | UInt64(bytes[place]) }
        index += count
        return value
    }
}

/// Encrypts and decrypts dialog tokens by given functions, because the modules of the rules import no cryptography
/// library.
package struct DialogSeal {
    package struct Opened {
        package let plain: [UInt8]
        /// A hash that identifies a dialog token; its upper eight bits are the number of the key.
        package let digest: UInt64

        package init(plain: [UInt8], digest: UInt64) {
            self.plain = plain
            self.digest = digest
        }
    }

    /// Encrypts bytes for one Call-ID and tag, as text that needs no escapes in the user part of a URI.
    package let seal: (_ plain: [UInt8], _ callID: ByteString, _ tag: ByteString) -> [UInt8]
    /// Decrypts a text; `nil` if this daemon has not encrypted the text with the given Call-ID and tag.
    package let open: (_ text: ByteString, _ callID: ByteString, _ tag: ByteString) -> Opened?

    /// Encrypts sixteen bytes without a Call-ID and tag.
    ///
    /// The sixteen bytes need their own checksum, because `openBlock` accepts any text and may return meaningless
    /// bytes.
    package let sealBlock: (_ high: UInt64, _ low: UInt64) -> [23 of UInt8]
    package let openBlock: (_ text: ByteString) -> (high: UInt64, low: UInt64)?

    package init(
        seal: @escaping (_ plain: [UInt8], _ callID: ByteString, _ tag: ByteString) -> [UInt8],
        open: @escaping (_ text: ByteString, _ callID: ByteString, _ tag: ByteString) -> Opened?,
        sealBlock: @escaping (_ high: UInt64, _ low: UInt64) -> [23 of UInt8],
        openBlock: @escaping (_ text: ByteString) -> (high: UInt64, low: UInt64)?
    ) {
        self.seal = seal
        self.open = open
        self.sealBlock = sealBlock
        self.openBlock = openBlock
    }
}

/// The dialog token of a request, with the side that sent the request.
package struct DialogPass {
    package let token: DialogToken
    /// Whether the request comes from the caller's side of the dialog.
    package let isFromCaller: Bool
    package let digest: UInt64

    package init(token: DialogToken, isFromCaller: Bool, digest: UInt64) {
        self.token = token
        self.isFromCaller = isFromCaller
        self.digest = digest
    }

    /// The side that sent the request, whose tag has decrypted the dialog token.
    package var sender: DialogSide { isFromCaller ? token.caller : token.callee }
    package var isFromPeer: Bool {
        switch sender.party {
        case .peer, .upstream: true
        case .phone, .caller: false
        }
    }

    /// The side of the dialog to which the request is sent.
    package var receiver: DialogSide { isFromCaller ? token.callee : token.caller }
}
