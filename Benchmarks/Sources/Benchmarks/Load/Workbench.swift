import Addressing
import Reactor

/// A fresh daemon with everything around it: phones, a caller, a push gateway.
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

    /// How long the slow app's provider takes to answer.
    static let slowness: Duration = .seconds(5)

    /// Calls, of which there may be `callCount`, go to the users 0 and up; those who are slow belong to the slow app. Their
    /// phones have sockets of their own if each is to be woken by its own REGISTER.
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

    /// The users whose phones have sockets of their own, so that each is woken by its own REGISTER.
    var alone: Range<Int> { 0..<phones.alone }

    /// Lets what is measured be seen when it happens, though others keep the processors busy.
    func goesFirst() { loop.goFirst() }

    /// Meanwhile there is nothing to do here.
    func pause(_ duration: Duration) throws(BenchmarkError) {
        _ = try wait.wait(atMost: duration) { false }
    }

    /// The least that could stand in the daemon's place.
    func startRelay(_ options: BenchmarkOptions) throws(BenchmarkError) -> ServerProcess {
        try ServerProcess(relay: options.program, pushPort: sink.port, on: loop)
    }

    /// A second daemon with the same settings, which takes reports and connections and no calls.
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

    /// Where the sockets' arrivals go; they are made before their receivers.
    private final class Hooks {
        weak var client: RegisterClient?
        weak var calls: CallLoad?
    }
}
