import LoopTesting
import Reactor
import Synchronization
import Testing
import Timekeeping

@Suite("Event loop", .timeLimit(.minutes(10)))
struct EventLoopTests {
    @Test func `jobs posted from another thread run in order on the loop's thread`() async throws {
        try await withLoop { loop in
            let mailbox = Mailbox<(Int, Bool)>()
            for number in 0..<100 { loop.post { mailbox.put((number, loop.isCurrent)) } }
            for number in 0..<100 {
                let (got, onLoop) = try await mailbox.next()
                #expect(got == number)
                #expect(onLoop)
            }
            #expect(!loop.isCurrent)
        }
    }

    @Test func `a job may post a job`() async throws {
        try await withLoop { loop in
            let mailbox = Mailbox<Int>()
            loop.post { loop.post { loop.post { mailbox.put(3) } } }
            try await mailbox.expect(3)
        }
    }

    @Test func `an actor on the loop runs on its thread`() async throws {
        try await withLoop { loop in
            let bench = Bench(loop)
            #expect(await bench.run { $0.loop.isCurrent })
            let mailbox = Mailbox<Bool>()
            loop.post { mailbox.put(bench.assumeIsolated { $0.loop.isCurrent }) }
            let isCurrent = try await mailbox.next()
            #expect(isCurrent)
        }
    }

    private actor Elsewhere {
        func look() {}
    }

    @Test func `tasks begin in their order, and stay on the loop after they have waited for others`() async throws {
        try await withLoop { loop in
            let mailbox = Mailbox<(Int, Bool)>()
            let elsewhere = Elsewhere()
            loop.post {
                for number in 0..<10 {
                    loop.startTask { [number] _ in
                        mailbox.put((number, loop.isCurrent))
                        await elsewhere.look()
                        try? await loop.pause(.milliseconds(1))
                        mailbox.put((10, loop.isCurrent))
                    }
                }
            }
            var begun: [Int] = []
            for _ in 0..<20 {
                let (number, onLoop) = try await mailbox.next()
                if number < 10 { begun.append(number) }
                #expect(onLoop)
            }
            #expect(begun == Array(0..<10))
        }
    }

    @Test func `jobs posted before the stop are run, and the loop can run again`() throws {
        let loop = try EventLoop()
        let count = Mutex(0)
        for _ in 0..<2 {
            loop.post { count.withLock { $0 += 1 } }
            loop.post { loop.stop() }
            loop.post { count.withLock { $0 += 1 } }
            loop.run()
        }
        #expect(count.withLock { $0 } == 4)
    }

    @Test func `a stop before the run ends it at once`() throws {
        let loop = try EventLoop()
        loop.stop()
        loop.run()
    }

    @Test func `a thread that runs a loop continues after the loop is stopped`() async throws {
        let loop = try EventLoop()
        loop.post { loop.post { loop.stop() } }
        try await loop.runOnThread(name: "a name of more than 15 characters")
        #expect(!loop.isRunning)
    }

    @Test func `jobs that post jobs forever do not starve timers`() async throws {
        try await withLoop { loop in
            let mailbox = Mailbox<Bool>()
            let bench = Bench(loop)
            let isDone = Atomic<Bool>(false)
            @Sendable func spin() {
                if !isDone.load(ordering: .relaxed) { loop.post { spin() } }
            }
            let timer = try await bench.run { bench in
                try bench.loop.schedule(at: SystemClock.now + .milliseconds(5)) { mailbox.put(true) }
            }
            spin()
            #expect(try await mailbox.next())
            isDone.store(true, ordering: .relaxed)
            withExtendedLifetime(timer) {}
        }
    }
}

@Suite("Loop timer", .timeLimit(.minutes(10)))
struct LoopTimerTests {
    @Test func `fires at or after its instant, once`() async throws {
        try await withLoop { loop in
            let mailbox = Mailbox<Instant>()
            let deadline = SystemClock.now + .milliseconds(7)
            let timer = try await Bench(loop).run { bench in
                try bench.loop.schedule(at: deadline) { mailbox.put(SystemClock.now) }
            }
            #expect(try await mailbox.next() >= deadline)
            withExtendedLifetime(timer) {}
        }
    }

    @Test func `moving the deadline replaces it, and the past fires at once`() async throws {
        try await withLoop { loop in
            let mailbox = Mailbox<String>()
            let timers = try await Bench(loop).run { bench in
                let late = try LoopTimer(on: bench.loop) { mailbox.put("moved") }
                late.arm(at: .distantFuture)
                late.arm(at: .distantPast)
                let never = try LoopTimer(on: bench.loop) { mailbox.put("disarmed") }
                never.arm(at: .distantPast)
                never.disarm()
                let last = try bench.loop.schedule(at: SystemClock.now + .milliseconds(5)) { mailbox.put("last") }
                return [late, never, last]
            }
            #expect(try await mailbox.next() == "moved")
            #expect(try await mailbox.next() == "last")
            #expect(timers.allSatisfy { $0.deadline == nil })
        }
    }

    @Test func `a handler may arm its timer again`() async throws {
        try await withLoop { loop in
            let mailbox = Mailbox<Int>()
            let bench = Bench(loop)
            let ticker = try await bench.run { bench in try Ticker(bench.loop, mailbox) }
            for number in 1...3 { #expect(try await mailbox.next() == number) }
            withExtendedLifetime(ticker) {}
        }
    }

    private final class Ticker: @unchecked Sendable {
        var timer: LoopTimer?
        var count = 0

        init(_ loop: EventLoop, _ mailbox: Mailbox<Int>) throws {
            timer = try LoopTimer(on: loop) { [weak self] in
                guard let self else { return }
                count += 1
                mailbox.put(count)
                timer?.arm(at: SystemClock.now + .milliseconds(1))
            }
            timer?.arm(at: .distantPast)
        }
    }
}
