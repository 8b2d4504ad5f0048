/// Keys made for these tests; they guard nothing.
enum TestKeys {
    /// The key of RFC 7515 appendix A.3.
    static let rfc7515P256 = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgjpsQnnGQmL+YBIff
        H1136cspYG6+0iY7X1fCE9+E9LKhRANCAAR/zc4ncPbEXUGDy+5v20t7WAczNXvp
        7xO6z248e9FURcfxRM0bvZt+hyzf7bnuufSzaV1uqQskrYpGIyiFiOWt
        -----END PRIVATE KEY-----
        """

    static let rsa2048 = """
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

    static let rsa1024 = """
        -----BEGIN PRIVATE KEY-----
        MIICdgIBADANBgkqhkiG9w0BAQEFAASCAmAwggJcAgEAAoGBAPEyubY7pWxab2RR
        AIOpj8qnKmBqySJhxmtSwObDp+kMiLi6I2ejzL8zrMHSwY9vRuwBtgz4m0t6fPqL
        D9MRfXelWak4viqJA5oekkE9+PWYeaFBM9WaFj3N51V54slxn04nZEx+CRePhsA6
        JhtiZVN/+3hKsDz6gfIGwyI+S3gjAgMBAAECgYB0Bri7Zvnuo5pOIYEj1N9s1vlV
        pEjZFzvByO8ukxQk0Xi7lB8P7gXCPHNwUZf3DcqKIVCX8MeTiXqxc0/LcvBtPJ5v
        Rd5fdfJWdyQqEO8rY5rNDrds+xGvtTCzEYGTZQ+HjI8k93Z21qPo8Z5Cam12iiux
        LncA8/5XrBwc5gYG8QJBAP9h87es3xpoy/s9m/t0WXFYo99Kw7/kRQ8O2zIGNH1f
        +ZD69+4UbcaG1fOXXTOewoeNh5MZEHeqIC1hLigEzC8CQQDxx/6/JFFbdW6uIjVz
        bK9b8Q75k76IwnUoRqrztsyKVc1qp1tcuKsK/sgb+zad/fR6tZlTTbTPX9Inb7/v
        /VJNAkBGqP57ApzUPMy7nidLYrzgrKrivFf+/xTQfsbNR4Q8cFKn95ijygk5ldMa
        y/Wgs7uVL+akH5o70dmHVM0li3ZHAkAd5rb5mps5LV+/x1lG6hUR0NEiSoRQ04O7
        tGml9GB9ZzkdTI8++1Oj63iCBWJuzZ5zoovQwpZu4xHRcL+TBYgtAkEAn110cDYZ
        tD2ipJGyn9Upuc+siqrEVLfnbG7dJeTEONHsUMv0WJ7o6jehpoLHFf522BGSTWMF
        wQ3ef8nQ2STyeg==
        -----END PRIVATE KEY-----
        """

    static let p384 = """
        -----BEGIN PRIVATE KEY-----
        MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDCQBMGJKZ/dy0LAvDE3
        SN73qKVFjNGBalztTUm5xRp32G9WB0pDWS0lMmc4dzDUjYWhZANiAASGKKyubwuw
        hK9HUK3TbHqyU7JGumMGWBfmTP+Ur62ujp1vK69h3ceiKBnLRvXfdhwDT9kFwRpb
        8TS/nKk+ZNjGP7q6HJBFOuY76inh4EpCR6sb/8xbyP/AUKR+HO6vxE8=
        -----END PRIVATE KEY-----
        """

    // One key in the forms of several programs.

    static let sec1 = """
        -----BEGIN EC PRIVATE KEY-----
        MHcCAQEEIDhJ39xCZga8WmNEOSeHE96tKGuAkL7ZI3208jQhAaKMoAoGCCqGSM49
        AwEHoUQDQgAEZQG/aGYoGY+9j2hHFIt6Dv2Ylawy6gEkFc2DM/OYdEOO1q6OHaru
        00bqBxGXc8mAGUzOCHoNkVjLzQafc+pVGA==
        -----END EC PRIVATE KEY-----
        """

    static let sec1WithParameters = """
        -----BEGIN EC PARAMETERS-----
        BggqhkjOPQMBBw==
        -----END EC PARAMETERS-----
        -----BEGIN EC PRIVATE KEY-----
        MHcCAQEEIDhJ39xCZga8WmNEOSeHE96tKGuAkL7ZI3208jQhAaKMoAoGCCqGSM49
        AwEHoUQDQgAEZQG/aGYoGY+9j2hHFIt6Dv2Ylawy6gEkFc2DM/OYdEOO1q6OHaru
        00bqBxGXc8mAGUzOCHoNkVjLzQafc+pVGA==
        -----END EC PRIVATE KEY-----
        """

    static let sec1Compressed = """
        -----BEGIN EC PRIVATE KEY-----
        MFcCAQEEIDhJ39xCZga8WmNEOSeHE96tKGuAkL7ZI3208jQhAaKMoAoGCCqGSM49
        AwEHoSQDIgACZQG/aGYoGY+9j2hHFIt6Dv2Ylawy6gEkFc2DM/OYdEM=
        -----END EC PRIVATE KEY-----
        """

    static let sec1WithoutPublicKey = """
        -----BEGIN EC PRIVATE KEY-----
        MDECAQEEIDhJ39xCZga8WmNEOSeHE96tKGuAkL7ZI3208jQhAaKMoAoGCCqGSM49
        AwEH
        -----END EC PRIVATE KEY-----
        """

    static let sec1AsPKCS8 = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgOEnf3EJmBrxaY0Q5
        J4cT3q0oa4CQvtkjfbTyNCEBooyhRANCAARlAb9oZigZj72PaEcUi3oO/ZiVrDLq
        ASQVzYMz85h0Q47Wro4dqu7TRuoHEZdzyYAZTM4Ieg2RWMvNBp9z6lUY
        -----END PRIVATE KEY-----
        """

    static let sec1PublicPoint =
        "046501bf686628198fbd8f6847148b7a0efd9895ac32ea012415cd8333f39874"
        + "438ed6ae8e1daaeed346ea07119773c980194cce087a0d9158cbcd069f73ea5518"

    /// Under a pass phrase.
    static let encrypted = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAivA9QIsNLvOAICCAAw
        DAYIKoZIhvcNAgkFADAdBglghkgBZQMEAQIEEE74VEnLZZ/FzqCnLXV1kRYEgZCA
        1zzNtlQ2AttLRDTtkvlUazOxEZr8Bm/aG63aHO60Xvfi7A6Zm7sNjRf7VtV6SD2J
        lB9Kq67EEg1fYEAbDf3aqciHpK9pSchNJENQmw3aFKpFDEMdygwdS/plU3v3E9EW
        QHSsy0KLuXWTcUEK/gX8QAUSRzVBTCdY+8xu0UlQeWzLjk5zKe2soHyMTBkfe+Y=
        -----END ENCRYPTED PRIVATE KEY-----
        """

    /// What another library signed with `rsa2048`: the input of RFC 7515 appendix A.3, its algorithm called RS256.
    static let rs256Signature = """
        bIpJWQPrRhX55LUn9ODv9IkSn5vikkOoWf1X1rnu39S4JOPEmkI42BTKhGiekg4eEpZFNzK9WJ2bxHVrRGw1Q4_HeBg_BSMaPrsk\
        pZjgXJ7xxRMCk6ZrctvwXmHaaHwZUqcI3SUyispKmxCZSogcklSJnT43jKOPYriR5myRX2HSNsgdY1-GbnnS3K1Q5JjO-wnXpk1Y\
        XMEPHHVx2yyYIm9-EMzTpjdUxHcREqsviCrm-xmrq1E00O9qwmV48dN68JZW9NNVQMJaPI3PN7jdkEVQajrkGUthGzFlz_W1H4bC\
        6hfxtcyZF68LGG_LKMT9DnIFlNvMfnAS2pHGXmsiDQ
        """
}
