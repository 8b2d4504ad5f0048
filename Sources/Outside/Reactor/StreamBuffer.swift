import Crypto

/// The bytes of a connection on their way: plain ones go straight to and from the kernel, those under TLS through libevent.
///
/// A connection has one as soon as TCP is established, and an accepted one after its TLS handshake. Reading is off at first.
enum StreamBuffer {
    case plain(PlainStream)
    case tls(TLSStream)

    /// Takes over a connected descriptor. With TLS, a client's handshake begins at once, and a server's is done.
    init(_ descriptor: consuming Descriptor, of connection: StreamConnection, turn: LoopTurn) throws(SystemError) {
        if let session = connection.tls {
            self = .tls(try TLSStream(descriptor, of: connection, session: session, turn: turn))
        } else {
            self = .plain(try PlainStream(descriptor, of: connection, turn: turn))
        }
    }

    func setReading(_ isOn: Bool) throws(SystemError) {
        switch self {
        case .plain(let stream): try stream.setReading(isOn)
        case .tls(let stream): stream.setReading(isOn)
        }
    }

    /// No more than that is read at a time.
    func limitInput(to bytes: Int) {
        switch self {
        case .plain(let stream): stream.inputLimit = bytes
        case .tls(let stream): stream.limitInput(to: bytes)
        }
    }

    /// Lends what has come and was not lent yet.
    func lendInput(_ body: (Span<UInt8>) -> Void) {
        switch self {
        case .plain(let stream): stream.lendInput(body)
        case .tls(let stream): stream.lendInput(body)
        }
    }

    /// Another owner of the socket, who sees what becomes of it when this one, on which nothing more is sent, is gone.
    func duplicateSocket() -> Descriptor? {
        switch self {
        case .plain(let stream): stream.duplicateSocket()
        case .tls(let stream): stream.duplicateSocket()
        }
    }

    /// How many bytes wait to be sent.
    var outputCount: Int {
        switch self {
        case .plain(let stream): stream.outputCount
        case .tls(let stream): stream.outputCount
        }
    }

    /// From now on the connection is told of drained output as soon as no more than so many bytes wait, not only when
    /// none do.
    func tellOutput(below bytes: Int) {
        switch self {
        case .plain(let stream): stream.outputMark = bytes
        case .tls(let stream): stream.tellOutput(below: bytes)
        }
    }

    /// Sends the bytes, or copies them to what waits.
    ///
    /// - Returns: how many bytes the peer holds up.
    func write(_ bytes: Span<UInt8>) throws(SystemError) -> Int {
        switch self {
        case .plain(let stream): try stream.write(bytes)
        case .tls(let stream): stream.write(bytes)
        }
    }

    /// Until ``endGathering(sending:)``, what is written may be kept back to be sent in one piece.
    func gather() {
        switch self {
        case .plain(let stream): stream.gather()
        case .tls: break  // libevent sends at the end of the turn
        }
    }

    /// - Returns: how many bytes the peer holds up.
    func endGathering(sending: Bool) throws(SystemError) -> Int {
        switch self {
        case .plain(let stream): try stream.endGathering(sending: sending)
        case .tls(let stream): stream.outputCount
        }
    }

    /// Sets how long nothing may arrive while reading is on, `nil` for any time, and how long output may wait without
    /// progress.
    func setTimeouts(input: Duration?, output: Duration) {
        switch self {
        case .plain(let stream): stream.setTimeouts(input: input, output: output)
        case .tls(let stream): stream.setTimeouts(input: input, output: output)
        }
    }
}
