import Foundation
import HTTP2Connections
import HTTPClient
import HTTPSemantics
import Reactor
import Timekeeping

/// Measures how many pushes per second one connection carries, and how much processor time a push costs this process.
enum PushBenchmark {
    static func run(
        _ options: BenchmarkOptions, _ allocationCount: @escaping () -> UInt64, into report: inout Report
    ) throws(BenchmarkError) {
        guard let url = options.url else { throw BenchmarkError("push needs --url; see --help") }
        let loop: EventLoop
        do throws(SystemError) {
            loop = try EventLoop()
        } catch {
            throw BenchmarkError("no event loop: \(error)")
        }
        for outstanding in [100, 500] {
            var rates: [Double] = []
            var costs: [Double] = []
            var allocations: [Double] = []
            var latency = Samples()
            // The first round only warms up the connection.
            for round in 0...options.rounds {
                let load = PushLoad(on: loop, url, outstanding, options)
                let count = round == 0 ? max(1, options.pushes / 10) : options.pushes
                let memory = allocationCount()
                let (time, cpu) = try load.run(count)
                if load.failures > 0 {
                    report.complain("\(load.failures) of \(count) pushes failed, one with: \(load.complaint)")
                }
                guard round > 0 else { continue }
                rates.append(Double(count) / time.seconds)
                costs.append(cpu.seconds * 1e6 / Double(count))
                allocations.append(Double(allocationCount() - memory) / Double(count))
                latency = load.latency
            }
            let name = "\(outstanding) in flight"
            report.add("push", name, "/s", rates)
            report.add("push", name + ", our CPU", "µs", costs)
            report.add("push", name + ", allocations", "each", allocations)
            report.add("push", name + ", answer", latency)
        }
    }
}

/// Sends pushes over one connection, with a fixed number of unanswered pushes.
final class PushLoad {
    private let loop: EventLoop
    private let session: HTTPSession
    private let url: String
    private let outstanding: Int
    private var template: HTTPClientRequest
    private var left = 0
    private var underWay = 0
    private var sent = 0
    private(set) var failures = 0
    private(set) var complaint = ""
    private(set) var latency = Samples()

    private static let body = """
        {"aps":{"content-available":1,"loc-key":"IC_MSG","sound":"msg.caf"},"call-id":"i00000000~087a45d8",\
        "from-uri":"sip:caller@bench.example","display-name":"Caller","pn_ttl":30}
        """
    private static let authorization = """
        bearer eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkcifQ.eyJpc3MiOiJERUYxMjNHSElKIiwiaWF0IjoxNzAwMDAwMDAwfQ.\
        MEUCIQDx0Kf3m1n2o3p4q5r6s7t8u9v0w1x2y3z4A5B6C7D8E9F0
        """
    private static let token = "740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb"

    init(on loop: EventLoop, _ url: String, _ outstanding: Int, _ options: BenchmarkOptions) {
        self.loop = loop
        self.outstanding = outstanding
        self.url = url
        var limits = HTTPSession.Limits()
        limits.connectionsPerHost = 1
        session = HTTPSession(on: loop, limits: limits, over: [HTTP2Transport.self])
        template = HTTPClientRequest(
            method: "POST", url: url,
            headers: [
                HTTPField("apns-topic", "org.bench.phone.voip"), HTTPField("apns-push-type", "voip"),
                HTTPField("apns-priority", "10"), HTTPField("apns-expiration", "0"),
                HTTPField("authorization", Self.authorization),
            ], body: Array(Self.body.utf8))
        template.route.authorityFile = options.authority
    }

    /// Sends the given number of pushes, and waits for all answers.
    ///
    /// - Returns: the duration, and the processor time that this process used.
    func run(_ count: Int) throws(BenchmarkError) -> (time: Duration, cpu: Duration) {
        left = count
        let start = loop.now
        let cpu = Self.cpuTime
        for _ in 0..<min(outstanding, count) { send() }
        loop.run()
        let result = (loop.now - start, Self.cpuTime - cpu)
        session.close()
        return result
    }

    private func send() {
        left -= 1
        underWay += 1
        sent += 1
        let number = String(sent, radix: 16)
        var request = template
        request.url = url + String(repeating: "0", count: 8 - number.utf8.count) + number + Self.token
        session.send(request) { [self] in finished($0) }
    }

    private func finished(_ result: Result<HTTPClientResponse, HTTPClientError>) {
        underWay -= 1
        switch result {
        case .success(let response):
            latency.add(response.duration)
            if response.status != 200 { fail("status \(response.status)") }
        case .failure(let error): fail("\(error)")
        }
        if left > 0 { send() } else if underWay == 0 { loop.stop() }
    }

    private func fail(_ what: String) {
        failures += 1
        complaint = what
    }

    private static var cpuTime: Duration { .microseconds(clock()) }
}
