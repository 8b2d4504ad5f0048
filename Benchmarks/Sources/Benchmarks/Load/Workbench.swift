import Addressing
import Reactor

/// A new daemon with the phones, the caller and the push gateways that its load needs.
final class Workbench {
    let daemon: ServerProcess
    let loop: EventLoop
    let registers: RegisterLoad
    let calls: CallLoad
    private let phones: PhoneSockets
    private let caller: UDPSocket
    private let sink: PushSink
    private let slowSink: PushSink
    private let wait: LoopWait

    /// The time that the slow app's provider takes to answer a push.
    static let slowness: Duration = .seconds(5)

    /// Starts the daemon for at most `callCount` calls. Call number N is for user number N, counted from 0. Users for
    /// whom `isSlow` is true have the app with the slow provider. If `wakesPhones` is true, each phone has its own
    /// socket, so that only its own REGISTER wakes it.
    init(
        _ options: BenchmarkOptions, calls callCount: Int = 0, wakesPhones: Bool = true, servesAPI: Bool = false,
        servesStreams: Bool = false,
        under tool: Callgrind? = nil, isSlow: @escaping (Int) -> Bool = { _ in false }
    ) throws(BenchmarkError) {
        do {
            loop = try EventLoop()
            caller = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop, datagramLimit: 4096)
        } catch {
            throw BenchmarkError("no loop: \(error)")
        }
        wait = LoopWait(on: loop)
        let hooks = Hooks()
        sink = try PushSink(on: loop) { hooks.calls?.pushed($0) }
        slowSink = try PushSink(on: loop, delay: Self.slowness) { _ in }
        daemon = try ServerProcess(
            daemon: tool?.daemon ?? options.daemon, under: tool, servesAPI: servesAPI,
            servesStreams: servesStreams, caller: caller.local, pushPort: sink.port, slowPort: slowSink.port, on: loop)
        phones = try PhoneSockets(
            daemon: daemon.endpoint, alone: wakesPhones ? callCount : 0, isSlow: isSlow, on: loop
        ) { bytes, socket in
            switch Arrival(bytes) {
            case .response(let status, let branch): hooks.client?.answered(branch: branch, status: status)
            case .request: hooks.calls?.phoneReceived(bytes, at: socket)
            case .unknown: break
            }
        } batchEnded: {
            hooks.calls?.batchEnded()
        }
        let client = try RegisterClient(phones, on: loop)
        registers = RegisterLoad(client, on: loop)
        calls = try CallLoad(
            users: callCount, isSlow: isSlow, daemon: daemon.endpoint, phones: phones, client: client, caller: caller,
            on: loop)
        hooks.client = client
        hooks.calls = calls
    }

    /// The users whose phones have their own sockets.
    var alone: Range<Int> { 0..<phones.alone }

    /// Asks the kernel to run this thread as soon as an event arrives, so that the times of events are measured
    /// exactly.
    func goesFirst() { loop.goFirst() }

    /// Runs the loop for some time without sending anything.
    func pause(_ duration: Duration) throws(BenchmarkError) {
        _ = try wait.wait(atMost: duration) { false }
    }

    /// Starts the ``Relay``, the simplest program that can replace the daemon.
    func startRelay(_ options: BenchmarkOptions) throws(BenchmarkError) -> ServerProcess {
        try ServerProcess(relay: options.program, pushPort: sink.port, on: loop)
    }

    /// Starts a second daemon with the same settings; the second daemon gets reports and connections, but no calls.
    func startTwin(_ options: BenchmarkOptions) throws(BenchmarkError) -> ServerProcess {
        try ServerProcess(
            daemon: options.daemon, servesAPI: true, servesStreams: true, caller: caller.local, pushPort: sink.port,
            slowPort: slowSink.port, on: loop)
    }

    func close() throws(BenchmarkError) {
        try daemon.stop()
        phones.close()
        caller.close()
        sink.close()
        slowSink.close()
    }

    /// The objects that receive messages and pushes. The objects need the sockets, so they are set after the sockets
    /// are open.
    private final class Hooks {
        weak var client: RegisterClient?
        weak var calls: CallLoad?
    }
}
