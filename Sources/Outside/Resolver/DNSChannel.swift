import Addressing
import CAres
import Glibc
import Reactor
import Timekeeping

/// The sole owner of one c-ares channel, driven by the loop.
///
/// Each answer arrives on the loop, after ``ask(_:completion:)`` has returned.
@safe
final class DNSChannel {
    /// Gets the answer to a query, and how long the records of the answer are valid.
    typealias Completion = @Sendable (DNSAnswer, Duration) -> Void

    private let loop: EventLoop
    private let raw: OpaquePointer
    private let box: Unmanaged<Box>
    private var timer: LoopTimer?
    private var watches: FileWatches?

    private static let isLibraryReady = ares_library_init(ARES_LIB_INIT_ALL) == ARES_SUCCESS

    fileprivate final class Box {
        weak var channel: DNSChannel?
    }

    /// Creates a channel to the given name servers; `nil` for the system's. Each name server gets a DNS query at most
    /// `tries` times. The first try of a DNS query waits for `timeout`, and later tries wait longer.
    init(on loop: EventLoop, servers: [Endpoint]?, timeout: Duration, tries: Int) throws(SystemError) {
        precondition(Self.isLibraryReady, "c-ares could not be initialised")
        self.loop = loop
        let box = unsafe Unmanaged.passRetained(Box())
        var options = unsafe ares_options()
        unsafe options.sock_state_cb = socketCallback
        unsafe options.sock_state_cb_data = unsafe box.toOpaque()
        unsafe options.timeout = timeout.milliseconds
        unsafe options.tries = Int32(clamping: tries)
        var raw: OpaquePointer?
        let mask = Int32(ARES_OPT_SOCK_STATE_CB) | Int32(ARES_OPT_TIMEOUTMS) | Int32(ARES_OPT_TRIES)
        guard unsafe ares_init_options(&raw, &options, mask) == ARES_SUCCESS, let raw = unsafe raw else {
            unsafe box.release()
            throw SystemError(call: "ares_init_options", code: ENOMEM)
        }
        unsafe self.raw = raw
        unsafe self.box = box
        unsafe box.takeUnretainedValue().channel = self
        timer = try LoopTimer(on: loop) { [weak self] in self?.advance(reading: nil, writing: nil) }
        watches = FileWatches(on: loop, until: timer) { [weak self] descriptor, ready in
            let isReading = ready == .read
            self?.advance(reading: isReading ? descriptor : nil, writing: isReading ? nil : descriptor)
        }
        guard let servers else { return }
        let list = servers.map(\.description).joined(separator: ",")
        guard unsafe ares_set_servers_ports_csv(raw, list) == ARES_SUCCESS else {
            throw SystemError(call: "ares_set_servers", code: EINVAL)
        }
    }

    deinit {
        // The watches are removed before c-ares closes the sockets, because a watch must end before its descriptor.
        watches = nil
        let remains = unsafe Remains(raw: raw, box: box)
        loop.dispose { remains.free() }
    }

    /// The c-ares channel and its callbacks' context, freed on the loop's thread.
    ///
    /// - The type is `@unchecked Sendable`, because it moves to the loop and is used once.
    @safe
    private struct Remains: @unchecked Sendable {
        let raw: OpaquePointer
        let box: Unmanaged<Box>

        func free() {
            unsafe ares_destroy(raw)
            unsafe box.release()
        }
    }

    // MARK: Questions

    func ask(_ question: DNSQuestion, completion: @escaping Completion) {
        loop.checkThread()
        let loop = loop
        // The completion is posted, because c-ares may report the answer before `ask` has returned.
        let pending = Pending(question.kind) { answer, lifetime in loop.post { completion(answer, lifetime) } }
        let context = unsafe Unmanaged.passRetained(pending).toOpaque()
        switch question.kind {
        case .naptr: unsafe ares_query(raw, question.name, internetClass, naptrType, recordsArrived, context)
        case .srv: unsafe ares_query(raw, question.name, internetClass, srvType, recordsArrived, context)
        case .addresses:
            var hints = ares_addrinfo_hints()
            hints.ai_family = AF_UNSPEC
            // Without a socket type, c-ares would return each address several times.
            hints.ai_socktype = Int32(SOCK_DGRAM.rawValue)
            unsafe ares_getaddrinfo(raw, question.name, nil, &hints, addressesArrived, context)
        }
        armTimer()
    }

    // MARK: Driving c-ares

    private func advance(reading: Int32?, writing: Int32?) {
        unsafe ares_process_fd(raw, reading ?? badSocket, writing ?? badSocket)
        armTimer()
    }

    private func armTimer() {
        var wait = timeval()
        guard unsafe ares_timeout(raw, nil, &wait) != nil else {
            timer?.disarm()
            return
        }
        timer?.arm(at: loop.now + .seconds(wait.tv_sec) + .microseconds(wait.tv_usec))
    }

    fileprivate func socketChanged(_ descriptor: Int32, isReading: Bool, isWriting: Bool) {
        var interest: FileWatch.Interest = []
        if isReading { interest.insert(.read) }
        if isWriting { interest.insert(.write) }
        watches?.watch(descriptor, for: interest)
    }
}

/// A query that waits for its answer; c-ares owns the query until the answer arrives.
private final class Pending {
    let kind: DNSQuestion.Kind
    let completion: (DNSAnswer, Duration) -> Void

    init(_ kind: DNSQuestion.Kind, completion: @escaping (DNSAnswer, Duration) -> Void) {
        self.kind = kind
        self.completion = completion
    }
}

// Constants of arpa/nameser.h, which Swift does not import.
private let internetClass: Int32 = 1
private let srvType: Int32 = 33
private let naptrType: Int32 = 35
private let badSocket: Int32 = -1

extension Duration {
    fileprivate var milliseconds: Int32 {
        let bounded = min(max(self, .milliseconds(1)), .seconds(1_000_000)).components
        return Int32(bounded.seconds * 1000 + bounded.attoseconds / 1_000_000_000_000_000)
    }
}

// MARK: Callbacks

private func socketCallback(
    _ context: UnsafeMutableRawPointer?, _ descriptor: Int32, _ isReading: Int32, _ isWriting: Int32
) {
    guard let context = unsafe context else { return }
    let box = unsafe Unmanaged<DNSChannel.Box>.fromOpaque(context).takeUnretainedValue()
    box.channel?.socketChanged(descriptor, isReading: isReading != 0, isWriting: isWriting != 0)
}

private func recordsArrived(
    _ context: UnsafeMutableRawPointer?, _ status: Int32, _ timeouts: Int32, _ bytes: UnsafeMutablePointer<UInt8>?,
    _ count: Int32
) {
    guard let context = unsafe context else { return }
    let pending = unsafe Unmanaged<Pending>.fromOpaque(context).takeRetainedValue()
    guard status == ARES_SUCCESS, let bytes = unsafe bytes else {
        return pending.completion(answerWithoutRecords(status), .zero)
    }
    let seconds = unsafe DNSMessage.timeToLive(Span(_unsafeStart: UnsafePointer(bytes), count: Int(count)))
    let answer = unsafe pending.kind == .srv ? srvAnswer(bytes, count) : naptrAnswer(bytes, count)
    pending.completion(answer, .seconds(Int64(seconds)))
}

private func addressesArrived(
    _ context: UnsafeMutableRawPointer?, _ status: Int32, _ timeouts: Int32,
    _ result: UnsafeMutablePointer<ares_addrinfo>?
) {
    guard let context = unsafe context else { return }
    let pending = unsafe Unmanaged<Pending>.fromOpaque(context).takeRetainedValue()
    defer { unsafe ares_freeaddrinfo(result) }
    guard status == ARES_SUCCESS, let result = unsafe result else {
        return pending.completion(answerWithoutRecords(status), .zero)
    }
    var addresses: [IPAddress] = []
    var seconds = Int64(Int32.max)
    var next = unsafe result.pointee.nodes
    while let node = unsafe next {
        if let address = unsafe ipAddress(node.pointee.ai_addr) {
            addresses.append(address)
            seconds = unsafe min(seconds, Int64(node.pointee.ai_ttl))
        }
        unsafe next = node.pointee.ai_next
    }
    pending.completion(addresses.isEmpty ? .nothing : .addresses(addresses), .seconds(max(seconds, 0)))
}

private func answerWithoutRecords(_ status: Int32) -> DNSAnswer {
    switch status {
    case ARES_ENODATA, ARES_ENOTFOUND, ARES_EBADNAME: .nothing
    default: .failed
    }
}

private func srvAnswer(_ bytes: UnsafeMutablePointer<UInt8>, _ count: Int32) -> DNSAnswer {
    var first: UnsafeMutablePointer<ares_srv_reply>?
    let status = unsafe ares_parse_srv_reply(bytes, count, &first)
    guard status == ARES_SUCCESS else { return answerWithoutRecords(status) }
    defer { unsafe ares_free_data(first) }
    var records: [SRVRecord] = []
    var next = unsafe first
    while let record = unsafe next {
        let host = unsafe String(cString: record.pointee.host)
        records.append(
            unsafe SRVRecord(
                priority: record.pointee.priority, weight: record.pointee.weight, port: record.pointee.port,
                target: host == "." ? "" : host))
        unsafe next = record.pointee.next
    }
    return records.isEmpty ? .nothing : .srv(records)
}

private func naptrAnswer(_ bytes: UnsafeMutablePointer<UInt8>, _ count: Int32) -> DNSAnswer {
    var first: UnsafeMutablePointer<ares_naptr_reply>?
    let status = unsafe ares_parse_naptr_reply(bytes, count, &first)
    guard status == ARES_SUCCESS else { return answerWithoutRecords(status) }
    defer { unsafe ares_free_data(first) }
    var records: [NAPTRRecord] = []
    var next = unsafe first
    while let record = unsafe next {
        records.append(
            unsafe NAPTRRecord(
                order: record.pointee.order, preference: record.pointee.preference,
                flags: String(cString: record.pointee.flags), service: String(cString: record.pointee.service),
                replacement: String(cString: record.pointee.replacement)))
        unsafe next = record.pointee.next
    }
    return records.isEmpty ? .nothing : .naptr(records)
}

private func ipAddress(_ address: UnsafeMutablePointer<sockaddr>?) -> IPAddress? {
    guard let address = unsafe address else { return nil }
    let raw = UnsafeRawPointer(address)
    switch unsafe Int32(address.pointee.sa_family) {
    case AF_INET:
        return unsafe IPAddress(v4: UInt32(bigEndian: raw.loadUnaligned(fromByteOffset: 4, as: UInt32.self)))
    case AF_INET6:
        return unsafe IPAddress(
            high: UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self)),
            low: UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: 16, as: UInt64.self)))
    default: return nil
    }
}
