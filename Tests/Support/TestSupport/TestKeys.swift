/// Keys for tests, which protect no real data.
package enum TestKeys {
    /// The key of RFC 7515 appendix A.3.
    package static let rfc7515P256 = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgjpsQnnGQmL+YBIff
        H1136cspYG6+0iY7X1fCE9+E9LKhRANCAAR/zc4ncPbEXUGDy+5v20t7WAczNXvp
        7xO6z248e9FURcfxRM0bvZt+hyzf7bnuufSzaV1uqQskrYpGIyiFiOWt
        -----END PRIVATE KEY-----
        """

    package static let rsa2048 = """
        -----BEGIN PRIVATE KEY-----
        MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDkXtyg5w12IyVo
        7RDzmZJOAQ8O5Xrc88qZy6pvEiVdLonVONmJ1yLarzNXf8AMDDEgddcwElgJjpJ9
        e5Vk6e+HBrdTRgdv2bffpCjDU7WhRjH+ynIY05uXsICm9wV18dy6yXBmo/lu9bTu
        lxSZdj47wF1mhMIB81/IskaCg+4Q6AORgFWimtGNGGtlnYCwzzuVObYIgchLMGVh
        4da5VTrymu8sbLgiTfLj8vMRHW2snklCb6wVI7H4mWRKuUWGAB276rLIMcP492Mk
        dLDGdBT7zyQ0LtAfqGPXPZZs0bpFAeDeI1p6X8WpWLTr96U02w4CBGjure9FXU2t
        /YZIg/CbAgMBAAECggEAUl2Ya3wKEeLJOlfOdl2cNAATw0anEovnNaMMPHUp/rqr
        Qbj4VMvAKWlpNhTAWlgHW/LEgvUKxZ+jXBi3oCbzmhqlAibOxdubgtC9Vv2ZE6qy
        m3e+wQ+JHaOuMwoC8TAjcUb4AD0B2LBL6oWZC2RnO7u8tB4LrxJtKICMB8S3l2a4
        YasxuTCK9W+UBBjMJCfHteGKHO6vGBnJDfp6Vf4MJB5Gb6ILkYXdK3RSIdXSB3u9
        zDzmkhnPTkacFNi5Jso7Fsn1lixQZGn/9EPMwi/HC80GNGkHHICsjOSaB26s8+pf
        vmJ4fw20aj+v5IwCCQTK+1yFt0ER5xwHnnokMQ17eQKBgQD69+lt4vSZPxRwkpsX
        hv/1doHdT3DYsvvF/BIZoyUchJi2ftEhQLDUUmP+rzENfIPdFgT4jtWaLaUxpAht
        cCrSdQcH4WsNVxqyDjNrbLk5rViMGkhcF9sOuj4IE0E0W5v05iWkAK4Qpe0S/7/+
        4e2UkhshrWg94sEtVb4PThAPbwKBgQDo8veYdF0fmcTYEqExoAk36gDl8RrxZ9O+
        CiiAdqEUTSqJihxv+Nnsz1dKWmhSOWBn8yjJ/3Nd9mgc0qHVQ4idlpyorgaNjiKy
        KsgIxppXTyfYfpaxJCBIU8FpX85cZyWzYdA3GnAc1bb3wHERDBOWOQ9sJWAQPJAp
        XzFd9/nblQKBgEUPRyq30zsAQq2fihH1UiXHkIDHxXO7/NBERu7LGAE685L0XrPZ
        y08BxQZmSwc9BkQmNQP4ugqNGPIKA0+qF/6FuYOPohevqmboxXmAF5AphT44VUUS
        Q3NQCJXMRpsTwlynoB/7F+r43b3mpnyKywehFNo1j4PIDARfncc0YfL9AoGAUg70
        pSGohC84phy5569GUAoAUv/By/QVJMaTSd2AFJSyPU0Hg3IX4lGPoEOEqCJKEZQY
        dD+mNh1Mw4p3M5bckxaxDMJw0ICXPEfRuzWqvMLHeH3vO2tMa+4FHcd//BDhuPTl
        0eNgRugJ0fBaY/TrGWn0QtZPpqiO5+P+kel+fJkCgYEA9NHRl1a663ysguuOs8H7
        Nb+gId3GayEAbSM1bMw4XX3YOcZljVF8WpVJLfdM3kvoGeAH0vAlEoVeHcVJZPNt
        Gk3WggTGVoc0ZU5ofxLFKfXUuDimtWBluny1/OkHJxdN0nbZXxeJkg8KYUTLx1sW
        oWgls9j591tu6y4C16gnuv4=
        -----END PRIVATE KEY-----
        """
}
